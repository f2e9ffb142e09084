#include "cpp/net/file_watch.hpp"

#include <utility>
#include <vector>

namespace tmesh::net {
namespace {

std::string_view last_part(std::string_view path) {
  return path.substr(path.rfind('/') + 1);
}

}  // namespace

FileWatch::FileWatch(Loop& loop, Timers& timers, Workers& workers, Delegate<void()> changed, const Pace& pace)
    : loop_(loop), timers_(timers), workers_(workers), changed_(changed), pace_(pace) {}

void FileWatch::watch(FilePrints known, bool is_watching) {
  known_ = std::move(known);
  is_watching_ = is_watching;
  if (!is_watching) {
    folders_.clear();
    quiet_.cancel();
    retry_.cancel();
  }
  job_.cancel();  // what it finds may be older than what is known now
  if (is_watching || is_asked_) look();
}

void FileWatch::check() {
  is_asked_ = true;
  look();
}

void FileWatch::look() {
  if (job_.active()) {
    must_look_again_ = true;
    return;
  }
  std::vector<std::string> files;
  for (const auto& [file, print] : known_) files.push_back(file);
  auto submitted =
      workers_.submit([files = std::move(files)] { return Found{print_files(files), find_places(files)}; },
                      Delegate<void(Found)>::bind<&FileWatch::on_found>(this));
  if (submitted) {
    job_ = std::move(*submitted);
  } else {
    retry_ = timers_.after(pace_.retry_us, Delegate<void()>::bind<&FileWatch::look>(this));
  }
}

void FileWatch::on_found(Found found) {
  job_.release();
  bool is_changed = std::exchange(is_asked_, false);
  for (auto& [file, print] : known_) {
    const uint64_t now = found.prints[file];
    if (now == kNoPrint || now == print) continue;
    is_changed = true;
    print = now;
  }
  if (is_watching_) arm(found.places);
  if (std::exchange(must_look_again_, false)) look();
  if (is_changed) changed_();
}

// A change between the look and a new watch would be nobody's: it is looked once more.
void FileWatch::arm(const FilePlaces& places) {
  places_ = places;
  bool is_new = false;
  bool is_complete = true;
  std::erase_if(folders_, [&](const auto& entry) {
    const auto it = places.folders.find(entry.first);
    return it == places.folders.end() || it->second != entry.second.identity || entry.second.is_gone;
  });
  for (const auto& [path, identity] : places.folders) {
    if (folders_.contains(path)) continue;
    auto opened = FolderWatch::open(loop_, path, FolderWatch::Changed::bind<&FileWatch::on_event>(this));
    if (opened) {
      folders_[path] = {identity, false, std::move(*opened)};
      is_new = true;
    } else {
      is_complete = false;
    }
  }
  retry_.cancel();
  if (!is_complete) {
    retry_ = timers_.after(pace_.retry_us, Delegate<void()>::bind<&FileWatch::look>(this));
  }
  if (is_new) must_look_again_ = true;
}

void FileWatch::on_event(std::string_view name) {
  bool concerns_us = name.empty() || places_.names.contains(std::string(name));
  // The folder itself, or an entry that is called like it.
  for (auto& [path, folder] : folders_) {
    if (last_part(path) != name) continue;
    folder.is_gone = true;
    concerns_us = true;
  }
  if (!concerns_us) return;
  if (!quiet_.active()) restless_since_us_ = timers_.now_us();
  if (timers_.now_us() - restless_since_us_ >= kQuietRoundsMax * pace_.quiet_us) return;
  quiet_ = timers_.after(pace_.quiet_us, Delegate<void()>::bind<&FileWatch::on_quiet>(this));
}

void FileWatch::on_quiet() {
  quiet_.release();
  look();
}

}  // namespace tmesh::net
