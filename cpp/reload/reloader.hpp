// The configuration of a running program, made anew: on SIGHUP, and when one of its files
// changes (config_watch).
//
// Files are read, checked and turned into TLS contexts on a worker; the loop only gets the
// result. One with a problem changes nothing: the log names each problem with its place, and
// a file that stays as it is, is not complained about again. What a fresh configuration
// changes is the program's business (`Apply`); which keys wait for a restart is said here,
// from the key table. One thread but for the worker.
#pragma once

#include <expected>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "cpp/base/log.hpp"
#include "cpp/config/changes.hpp"
#include "cpp/config/load.hpp"
#include "cpp/net/refresher.hpp"
#include "cpp/net/tls_context.hpp"

namespace tmesh::reload {

// A context that the configuration does not need is not there.
struct TlsContexts {
  std::optional<net::TlsContext> links;  // of links, or of the server's listener
  // Of an agent's https targets, unless it is the same; of a client's auth_urls.
  std::optional<net::TlsContext> targets;
};
// The error is one line for a person.
using MadeTls = std::expected<TlsContexts, std::string>;

// What the three programs do not share.
template <class Config>
struct Program {
  config::Role role;
  config::Loaded<Config> (*load)(const config::Source& source, config::Purpose purpose);
  MadeTls (*make_tls)(const Config& config);
};

template <class Config>
struct Fresh {
  config::Loaded<Config> loaded;
  TlsContexts tls;
};

// The files of both, as they were read last: those of a configuration that was refused may hold the
// mistake, the others are still in use.
FilePrints joined(FilePrints running, const FilePrints& fresh);

template <class Config>
class Reloader {
 public:
  // The configuration has no errors. May take out of it what it wants.
  using Apply = Delegate<void(Fresh<Config>& fresh)>;

  // Loop and `started` outlive it. IO: no thread can be made.
  static Result<std::unique_ptr<Reloader>> create(net::Loop& loop, const Program<Config>& program,
                                                  const config::Loaded<Config>& started,
                                                  const config::Source& source, Apply apply) {
    std::unique_ptr<Reloader> made(new Reloader(program, started, source, apply));
    auto refresher = net::Refresher<Fresh<Config>>::create(
        loop, Delegate<Fresh<Config>()>::template bind<&Reloader::make>(made.get()),
        Delegate<void(Fresh<Config>)>::template bind<&Reloader::on_made>(made.get()));
    if (!refresher) return std::unexpected(refresher.error());
    made->refresher_ = std::move(*refresher);
    made->refresher_->watch(made->files_, started.config.watches_files);
    return made;
  }
  Reloader(const Reloader&) = delete;
  Reloader& operator=(const Reloader&) = delete;

  void request() { refresher_->request(); }
  const config::ReloadStats& stats() const { return stats_; }

 private:
  Reloader(const Program<Config>& program, const config::Loaded<Config>& started,
           const config::Source& source, Apply apply)
      : program_(program), started_(started), source_(source), apply_(apply), files_(started.files) {
    source_.is_reload = true;
  }

  // On the worker: only what never changes is looked at.
  Fresh<Config> make() {
    Fresh<Config> fresh{program_.load(source_, config::Purpose::run), {}};
    if (!fresh.loaded.ok()) return fresh;
    MadeTls tls = program_.make_tls(fresh.loaded.config);
    if (tls) {
      fresh.tls = std::move(*tls);
    } else {
      fresh.loaded.problems.error({}, "", std::move(tls.error()));
    }
    return fresh;
  }

  void on_made(Fresh<Config> fresh) {
    const config::Settings& started = started_.settings;
    const bool is_good =
        config::judge(started, fresh.loaded.settings, fresh.loaded.problems, program_.role, stats_);
    if (is_good) {
      files_ = fresh.loaded.files;
      is_watching_ = fresh.loaded.config.watches_files;
    }
    refresher_->watch(is_good ? files_ : joined(files_, fresh.loaded.files), is_watching_);
    if (is_good) apply_(fresh);
  }

  const Program<Config> program_;
  const config::Loaded<Config>& started_;
  config::Source source_;
  const Apply apply_;
  config::ReloadStats stats_;
  FilePrints files_;
  bool is_watching_ = started_.config.watches_files;
  std::unique_ptr<net::Refresher<Fresh<Config>>> refresher_;
};

}  // namespace tmesh::reload
