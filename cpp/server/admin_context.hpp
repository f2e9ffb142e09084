// What the administration commands share. Internal to them.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cpp/base/exit_code.hpp"
#include "cpp/server/admin_commands.hpp"
#include "cpp/server/admin_output.hpp"
#include "cpp/server/change_scope.hpp"
#include "cpp/storage/agent_repository.hpp"
#include "cpp/storage/change.hpp"
#include "cpp/storage/db.hpp"
#include "cpp/storage/user_repository.hpp"

namespace tmesh::server {

struct AdminFailure {
  int exit_code = kExitFailure;
  std::string text;
};
using AdminResult = std::expected<void, AdminFailure>;
template <class T>
using AdminFound = std::expected<T, AdminFailure>;

// For messages: the file, or the key that names the database (its value holds a password).
std::string database_name(const storage::DatabaseSettings& settings);

std::unexpected<AdminFailure> admin_failure(std::string text);
std::unexpected<AdminFailure> admin_usage(std::string text);
// A malformed value is usage; everything else happened at run time.
std::unexpected<AdminFailure> admin_failure(const Error& error);

struct AdminContext {
  const AdminRequest& request;
  storage::Db& db;
  int64_t now_us;

  // The last value of a flag; nullopt if it was not given. All values in order.
  std::optional<std::string_view> option(std::string_view name) const;
  std::vector<std::string_view> options(std::string_view name) const;
  std::string_view argument() const { return request.arguments.front(); }

  // A user by id or name; an agent by id or, if only one has it, by name.
  AdminFound<storage::UserRecord> user(std::string_view id_or_name) const;
  AdminFound<storage::AgentRecord> agent(std::string_view id_or_name) const;
  // `--owner`, or without it the only administrator; neither disabled nor deleted.
  AdminFound<storage::UserRecord> owner() const;
  // Of lists: the id of the user of `--owner`; empty: everybody's.
  AdminFound<std::string> owner_filter() const;
  // The only administrator that is neither disabled nor deleted; `flag` is what names one.
  AdminFound<storage::UserRecord> only_admin(const char* flag) const;

  void print(const AdminRow& row) const { print_admin_row(request.out, request.is_json, row); }
  void print(const std::vector<AdminRow>& rows) const {
    print_admin_list(request.out, request.is_json, rows);
  }
  // One line on `err`, beside JSON or text.
  void note(std::string_view text) const;

  // Runs `work(const ChangeScope&) -> Result<T>` in one write transaction and commits it;
  // `work` may name one of the services as its parameter instead. It may run several times
  // (storage::change).
  template <class Work>
  auto change(Work work) const
      -> AdminFound<typename decltype(work(std::declval<const ChangeScope&>()))::value_type> {
    auto made =
        storage::change(db, [&](storage::Transaction& tx) { return work(ChangeScope(tx, now_us, "")); });
    if (!made) return admin_failure(made.error());
    if constexpr (std::is_void_v<typename decltype(made)::value_type>) {
      return {};
    } else {
      return std::move(*made);
    }
  }

  // A whole list, page by page: `fetch(PageRequest) -> Result<Page<T>>`.
  template <class T, class Fetch>
  AdminFound<std::vector<T>> all(Fetch fetch) const {
    constexpr size_t rows_max = 10'000;  // what a terminal or a script can be given at once
    std::vector<T> items;
    storage::PageRequest next{"", storage::PageRequest::limit_max};
    while (true) {
      Result<storage::Page<T>> page = fetch(next);
      if (!page) return admin_failure(page.error());
      for (T& item : page->items) items.push_back(std::move(item));
      if (!page->has_more) return items;
      if (items.size() >= rows_max) break;
      next.after_id = items.back().id;
    }
    note("only the first 10000 rows are shown");
    return items;
  }
};

AdminResult run_user_command(const AdminContext& context);
AdminResult run_admin_command(const AdminContext& context);
AdminResult run_audit_command(const AdminContext& context);
AdminResult run_agent_command(const AdminContext& context);
AdminResult run_policy_command(const AdminContext& context);
AdminResult run_token_command(const AdminContext& context);
AdminResult run_node_command(const AdminContext& context);

}  // namespace tmesh::server
