// Tells, once per change, that the content of one of some files is another one.
//
// Whatever way it came about: a rename over the file, a write into it, a symbolic link that
// leads elsewhere now (a mounted volume swaps a link to a whole folder), removed and made
// again. Compares contents by hash, so a touched or rewritten file is no change; waits until
// the files were left alone for a while, so that a file written in pieces is one change. A
// file that is gone is no change either: there is nothing new in it.
//
// Owns one FolderWatch per folder. Files are read on a worker, never on the loop. Where a
// folder cannot be watched it looks every few seconds. One thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cpp/base/file_print.hpp"
#include "cpp/net/folder_watch.hpp"
#include "cpp/net/workers.hpp"

namespace tmesh::net {

class FileWatch {
 public:
  struct Pace {
    // An editor writes within milliseconds; a person does not wait for half a second.
    uint64_t quiet_us = 200'000;
    uint64_t retry_us = 5'000'000;
  };
  // A file that never comes to rest is looked at all the same, after that many quiet times.
  static constexpr unsigned kQuietRoundsMax = 10;

  // Loop, timers and workers outlive it. `changed` may destroy it.
  FileWatch(Loop& loop, Timers& timers, Workers& workers, Delegate<void()> changed, const Pace& pace);
  FileWatch(const FileWatch&) = delete;
  FileWatch& operator=(const FileWatch&) = delete;

  // From now on these files, with the contents that were read of them: what they hold already
  // by now is a change, if it is something else. is_watching false: only check() looks.
  void watch(FilePrints known, bool is_watching);
  // Looks now and calls `changed` whether something changed or not. A change that it finds
  // is not told again.
  void check();

 private:
  struct Found {
    FilePrints prints;
    FilePlaces places;
  };

  void look();
  void on_found(Found found);
  void arm(const FilePlaces& places);
  void on_event(std::string_view name);
  void on_quiet();

  Loop& loop_;
  Timers& timers_;
  Workers& workers_;
  const Delegate<void()> changed_;
  const Pace pace_;
  bool is_watching_ = false;
  FilePrints known_;
  struct Folder {
    FilePlaces::Identity identity;
    bool is_gone = false;  // its watch will not tell anything any more
    std::unique_ptr<FolderWatch> watch;
  };
  FilePlaces places_;
  std::map<std::string, Folder> folders_;
  Ticket quiet_;
  Ticket retry_;
  Ticket job_;
  uint64_t restless_since_us_ = 0;  // while quiet_ waits: its first event
  bool is_asked_ = false;           // check() waits for its answer
  bool must_look_again_ = false;    // something happened while the job ran
};

}  // namespace tmesh::net
