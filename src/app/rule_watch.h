// Detects by inotify that a directory of rule files may have changed:
//   a file was edited, added, removed or replaced by a rename;
//   the directory was replaced, or was absent temporarily;
//   a symbolic link on the path to the directory or to one of its files was replaced, or was absent
//   temporarily (Kubernetes updates a ConfigMap this way).
//
// In every directory on these paths, only the next name of the path is watched, so changes of other
// files are ignored. inotify reports neither mounts nor changes that other hosts make to a network
// file system.
//
// One thread at a time.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "base/result.h"
#include "config/rules_loader.h"

namespace sluice {

class RuleWatch {
 public:
  explicit RuleWatch(std::filesystem::path directory, const FileChoice& choice = {});
  ~RuleWatch();
  RuleWatch(const RuleWatch&) = delete;
  RuleWatch& operator=(const RuleWatch&) = delete;

  // Watches the current paths. Changes after the start of Renew are noticed, so call it before
  // reading the files. Returns an error if something could not be watched; the rest is watched.
  Result<void> Renew();

  // The file descriptor, readable when TakeChanges has events to process. -1: nothing is watched.
  int descriptor() const { return inotify_; }

  // Consumes the events since the last call. Returns whether any of them was a change.
  bool TakeChanges();

 private:
  using Path = std::filesystem::path;

  // What is watched in one directory.
  struct Watched {
    bool rule_files = false;
    std::set<std::string, std::less<>> names;
  };

  std::optional<Path> Follow(const Path& path, int links_left);
  Watched* Watch(const Path& directory, std::uint32_t events);
  void WatchRuleFiles(const Path& directory);

  const Path directory_;
  const FileChoice choice_;
  int inotify_ = -1;
  int error_ = 0;                   // of the last call that failed
  std::map<int, Watched> watched_;  // by watch descriptor
  std::map<int, Watched> renewed_;  // becomes watched_
};

}  // namespace sluice
