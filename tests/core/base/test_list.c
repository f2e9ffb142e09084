#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/list.h"
#include "tests/core/base/prng.h"

struct item {
  int value;
  struct tmesh_list node;
};

static int value_of(struct tmesh_list* node) {
  return TMESH_CONTAINER(node, struct item, node)->value;
}

static void a_new_list_is_empty(void** state) {
  (void)state;
  struct tmesh_list l;
  tmesh_list_init(&l);
  assert_true(tmesh_list_empty(&l));
  assert_null(tmesh_list_first(&l));
}

static void push_back_keeps_order_and_push_front_reverses(void** state) {
  (void)state;
  struct tmesh_list l;
  struct item items[4] = {{1, {0}}, {2, {0}}, {3, {0}}, {4, {0}}};
  tmesh_list_init(&l);
  tmesh_list_push_back(&l, &items[1].node);
  tmesh_list_push_back(&l, &items[2].node);
  tmesh_list_push_front(&l, &items[0].node);
  tmesh_list_insert_after(&items[2].node, &items[3].node);
  int want = 1;
  for (struct tmesh_list* n = l.next; n != &l; n = n->next) assert_int_equal(value_of(n), want++);
  assert_int_equal(want, 5);
  for (struct tmesh_list* n = l.prev; n != &l; n = n->prev) assert_int_equal(value_of(n), --want);
  assert_int_equal(want, 1);
}

static void a_node_knows_whether_it_is_linked(void** state) {
  (void)state;
  struct tmesh_list l;
  struct item a = {1, {0}};
  tmesh_list_init(&l);
  tmesh_list_init(&a.node);
  assert_false(tmesh_list_linked(&a.node));
  tmesh_list_push_back(&l, &a.node);
  assert_true(tmesh_list_linked(&a.node));
  tmesh_list_remove(&a.node);
  assert_false(tmesh_list_linked(&a.node));
  assert_true(tmesh_list_empty(&l));
}

static void removing_twice_is_harmless(void** state) {
  (void)state;
  struct tmesh_list l;
  struct item a = {1, {0}};
  struct item b = {2, {0}};
  tmesh_list_init(&l);
  tmesh_list_push_back(&l, &a.node);
  tmesh_list_push_back(&l, &b.node);
  tmesh_list_remove(&a.node);
  tmesh_list_remove(&a.node);
  assert_ptr_equal(tmesh_list_first(&l), &b.node);
  assert_ptr_equal(l.prev, &b.node);
}

static void random_operations_match_an_array(void** state) {
  (void)state;
  enum { N = 16 };
  for (uint64_t seed = 1; seed <= 50; seed++) {
    struct prng p = prng_init(seed);
    struct item items[N];
    int model[N];
    size_t count = 0;
    struct tmesh_list l;
    tmesh_list_init(&l);
    for (int i = 0; i < N; i++) {
      items[i].value = i;
      tmesh_list_init(&items[i].node);
    }
    for (p.step = 0; p.step < 200; p.step++) {
      int i = (int)prng_below(&p, N);
      size_t at = 0;
      while (at < count && model[at] != i) at++;
      PROPERTY(&p, tmesh_list_linked(&items[i].node) == (at < count));
      if (at < count) {
        tmesh_list_remove(&items[i].node);
        memmove(model + at, model + at + 1, (count - at - 1) * sizeof *model);
        count--;
      } else if (prng_below(&p, 2) == 0) {
        tmesh_list_push_back(&l, &items[i].node);
        model[count++] = i;
      } else {
        tmesh_list_push_front(&l, &items[i].node);
        memmove(model + 1, model, count * sizeof *model);
        model[0] = i;
        count++;
      }
      size_t k = 0;
      for (struct tmesh_list* n = l.next; n != &l; n = n->next) {
        PROPERTY(&p, k < count && value_of(n) == model[k]);
        k++;
      }
      PROPERTY(&p, k == count);
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_new_list_is_empty),
      cmocka_unit_test(push_back_keeps_order_and_push_front_reverses),
      cmocka_unit_test(a_node_knows_whether_it_is_linked),
      cmocka_unit_test(removing_twice_is_harmless),
      cmocka_unit_test(random_operations_match_an_array),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
