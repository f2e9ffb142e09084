// Secrets of the configuration: values, files of their own, credentials of the service manager.
#include <unistd.h>

#include <cerrno>
#include <cstddef>

#include "cpp/base/file.hpp"
#include "cpp/base/parse.hpp"
#include "cpp/config/build.hpp"

namespace tmesh::config {
namespace {

constexpr std::size_t kSecretFileBytesMax = 4096;  // a token has 43 characters

// The path of a credential that was given to this service, else empty (systemd.exec(5), "Credentials"). One
// that cannot be reached was given, too: reading it says why.
std::string credential_path(const Build& build, const std::string& name) {
  const std::string_view folder = environment_value(build.source, "CREDENTIALS_DIRECTORY");
  if (folder.empty() || name.empty()) return {};
  std::string path = std::string(folder) + "/" + name;
  const bool is_absent = ::access(path.c_str(), F_OK) != 0 && (errno == ENOENT || errno == ENOTDIR);
  return is_absent ? std::string() : path;
}

Secret read_secret(Build& build, const Origin& where, std::string_view key, const std::string& file) {
  Result<std::string> content = read_file(file, kSecretFileBytesMax, pipes(build.source));
  build.files[file] = content ? print_of(*content) : kNoPrint;
  if (!content) {
    build.problems.error(where, key, std::string("the file cannot be read: ") + content.error().text);
    return {};
  }
  Secret secret(content->substr(0, content->find_last_not_of(" \t\r\n") + 1));
  secure_wipe(*content);
  if (secret.empty()) build.problems.error(where, key, "the file is empty");
  // Of a credential the service manager has taken care; what shows as the group's right there
  // is the mask of an access list.
  if (where.kind != Origin::Kind::credential && is_open_to_others(file)) {
    build.problems.warn(where, key, "other users have access to the file; its mode should be 0600");
  }
  return secret;
}

FoundSecret from_credential(Build& build, const std::string& name, const std::string& path) {
  const Origin where{Origin::Kind::credential, name, 0};
  if (!build.reads_secrets()) return {{}, where};
  return {read_secret(build, where, "", path), where};
}

FoundSecret from_file(Build& build, const std::string& file_path) {
  const Origin where = build.where(file_path);
  if (!build.reads_secrets()) return {{}, where};
  return {read_secret(build, where, file_path, build.settings.string(file_path)), where};
}

}  // namespace

FoundSecret build_secret(Build& build, const SecretSource& source) {
  const Setting& value = build.settings.at(source.value_path);
  const Setting& file = build.settings.at(source.file_path);
  const bool has_value = !value.text().empty();
  const bool has_file = !file.text().empty();
  const Origin::Kind highest =
      has_file && (!has_value || file.origin.kind > value.origin.kind) ? file.origin.kind : value.origin.kind;
  const std::string credential = credential_path(build, source.credential_name);
  if (!credential.empty() && (!(has_value || has_file) || highest < Origin::Kind::credential)) {
    return from_credential(build, source.credential_name, credential);
  }
  if (has_value && has_file && value.origin.kind == file.origin.kind) {
    build.error(source.file_path, "is set beside " + source.value_path + "; set only one of them");
    return {{}, file.origin};
  }
  if (has_file && file.origin.kind == highest) return from_file(build, source.file_path);
  return {Secret(value.text()), value.origin};
}

FoundSecret build_variable_secret(Build& build, const char* variable, const std::string& file_path,
                                  const std::string& credential_name) {
  const Setting& file = build.settings.at(file_path);
  const bool has_file = !file.text().empty();
  const std::string_view value = environment_value(build.source, variable);
  if (!value.empty() && !(has_file && file.origin.kind > Origin::Kind::env)) {
    return {Secret(value), {Origin::Kind::env, variable, 0}};
  }
  const std::string credential = credential_path(build, credential_name);
  if (!credential.empty() && !(has_file && file.origin.kind > Origin::Kind::credential)) {
    return from_credential(build, credential_name, credential);
  }
  return has_file ? from_file(build, file_path) : FoundSecret{};
}

Secret build_token(Build& build, const std::string& role) {
  const SecretSource source{role + ".token", role + ".token_file", "tunnelmesh-" + role + ".token"};
  const std::size_t errors_before = build.problems.error_count();
  FoundSecret found = build_secret(build, source);
  const bool is_refused =
      build.problems.error_count() > errors_before || build.settings.at(source.file_path).is_refused;
  if (found.value.empty() && !is_refused) build.require(source.value_path);
  if (has_space_or_control(found.value.reveal())) {
    const bool is_credential = found.where.kind == Origin::Kind::credential;
    const std::string_view key = is_credential ? std::string_view() : source.file_path;
    build.problems.error(found.where, key, "the file must hold one token and nothing else");
    return {};
  }
  return std::move(found.value);
}

}  // namespace tmesh::config
