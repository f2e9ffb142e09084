/* What the four metadata payloads have in common: reading members into bounded
 * lists and one text store, and writing the same lists. Internal to core/proto. */
#ifndef TMESH_PROTO_METADATA_PARTS_H
#define TMESH_PROTO_METADATA_PARTS_H

#include "core/proto/json.h"
#include "core/proto/json_build.h"
#include "core/proto/metadata.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Reading one payload. The first error sticks in `code`; every call after it returns false. */
struct tmesh_metadata_reader {
  char* at; /* free part of the store; as large as the payload, so texts always fit */
  char* end;
  uint8_t code; /* enum tmesh_code */
};

/* One member, wanted when its name is `name`; the functions return whether the name
 * matched, so that a chain of || finds the right one. null leaves the target alone. */
struct tmesh_metadata_member {
  struct tmesh_json key;
  struct tmesh_json value;
};
/* Checks the payload, allocates the store (NULL if that comes to nothing) and gives `take` each member. After
 * an error the store is still the caller's. */
TMESH_MUST_CHECK struct tmesh_status tmesh_metadata_read(
    char** storage, const void* data, size_t len_bytes, void* to,
    void (*take)(struct tmesh_metadata_reader* r, void* to, const struct tmesh_metadata_member* member));
bool tmesh_metadata_read_text(struct tmesh_metadata_reader* r, const struct tmesh_metadata_member* m,
                              const char* name, const char** out);
bool tmesh_metadata_read_bool(struct tmesh_metadata_reader* r, const struct tmesh_metadata_member* m,
                              const char* name, bool* out);
bool tmesh_metadata_read_i64(struct tmesh_metadata_reader* r, const struct tmesh_metadata_member* m,
                             const char* name, int64_t* out);
bool tmesh_metadata_read_u64(struct tmesh_metadata_reader* r, const struct tmesh_metadata_member* m,
                             const char* name, uint64_t* out);
bool tmesh_metadata_read_u32(struct tmesh_metadata_reader* r, const struct tmesh_metadata_member* m,
                             const char* name, uint32_t* out);
bool tmesh_metadata_read_time(struct tmesh_metadata_reader* r, const struct tmesh_metadata_member* m,
                              const char* name, struct tmesh_time* out);
bool tmesh_metadata_read_capabilities(struct tmesh_metadata_reader* r, const struct tmesh_metadata_member* m,
                                      uint32_t* out);
bool tmesh_metadata_read_texts(struct tmesh_metadata_reader* r, const struct tmesh_metadata_member* m,
                               const char* name, const char** out, size_t max, size_t* count);
bool tmesh_metadata_read_items(struct tmesh_metadata_reader* r, const struct tmesh_metadata_member* m,
                               struct tmesh_metadata_item* out, size_t* count);
bool tmesh_metadata_read_errors(struct tmesh_metadata_reader* r, const struct tmesh_metadata_member* m,
                                struct tmesh_metadata_error* out, size_t* count);
bool tmesh_metadata_read_listeners(struct tmesh_metadata_reader* r, const struct tmesh_metadata_member* m,
                                   struct tmesh_metadata_listener* out, size_t* count);

/* Writing; empty lists are omitted except items of an agent. */
void tmesh_metadata_put_items(struct tmesh_json_build* b, const struct tmesh_metadata_item* items,
                              size_t count);
void tmesh_metadata_put_errors(struct tmesh_json_build* b, const struct tmesh_metadata_error* errors,
                               size_t count);
void tmesh_metadata_put_capabilities(struct tmesh_json_build* b, uint32_t set);

#ifdef __cplusplus
}
#endif

#endif
