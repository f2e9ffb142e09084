#include "cpp/storage/revision_bump.hpp"

#include "cpp/storage/records.hpp"
#include "cpp/storage/rows.hpp"

namespace tmesh::storage {

Result<void> bump_revision(Transaction& tx, std::string_view now) {
  // The bounds keep text (which sorts above all numbers) and overflow out.
  const Param params[] = {now};
  Result<uint64_t> changed = tx.db().execute(
      "UPDATE authorization_revision SET revision = revision + 1, updated_at = ? "
      "WHERE id = 1 AND revision >= 0 AND revision < 9223372036854775807",
      params);
  if (!changed) return std::unexpected(changed.error());
  if (*changed != 1) return fail(TMESH_E_INVALID, "the authorisation revision is missing or exhausted");
  return {};
}

Result<uint64_t> read_revision(Db& db) {
  const auto revision = [](RowReader& row) { return row.integer(); };
  Result<std::optional<int64_t>> found =
      query_one<int64_t>(db, "SELECT revision FROM authorization_revision WHERE id = 1", {}, revision);
  if (!found) return std::unexpected(found.error());
  const int64_t* value = row_of(*found);
  if (value == nullptr) return fail(TMESH_E_INVALID, "the authorisation revision is missing");
  if (*value < 0) return fail(TMESH_E_INVALID, "the authorisation revision is negative");
  return static_cast<uint64_t>(*value);
}

}  // namespace tmesh::storage
