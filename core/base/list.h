/* Intrusive doubly linked list.
 *
 * The node lives in its owner; the list allocates nothing and owns nothing. A
 * node that is in no list points to itself, so unlinking twice is harmless and
 * "is it linked" needs no flag.
 */
#ifndef TMESH_BASE_LIST_H
#define TMESH_BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

struct tmesh_list {
  struct tmesh_list* next;
  struct tmesh_list* prev;
};

/* The struct that contains the node `member`. */
#define TMESH_CONTAINER(ptr, type, member) ((type*)((char*)(ptr) - offsetof(type, member)))

static inline void tmesh_list_init(struct tmesh_list* l) {
  l->next = l;
  l->prev = l;
}
static inline bool tmesh_list_empty(const struct tmesh_list* l) {
  return l->next == l;
}
/* For a node: whether it is in a list. */
static inline bool tmesh_list_linked(const struct tmesh_list* node) {
  return node->next != node;
}
static inline void tmesh_list_insert_after(struct tmesh_list* at, struct tmesh_list* node) {
  node->next = at->next;
  node->prev = at;
  at->next->prev = node;
  at->next = node;
}
static inline void tmesh_list_push_back(struct tmesh_list* l, struct tmesh_list* node) {
  tmesh_list_insert_after(l->prev, node);
}
static inline void tmesh_list_push_front(struct tmesh_list* l, struct tmesh_list* node) {
  tmesh_list_insert_after(l, node);
}
static inline void tmesh_list_remove(struct tmesh_list* node) {
  node->prev->next = node->next;
  node->next->prev = node->prev;
  tmesh_list_init(node);
}
static inline struct tmesh_list* tmesh_list_first(struct tmesh_list* l) {
  return l->next == l ? NULL : l->next;
}

#ifdef __cplusplus
}
#endif

#endif
