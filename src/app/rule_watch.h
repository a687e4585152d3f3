// Notices, by inotify, when a directory of rule files may read differently than before: a file
// edited, added, removed or renamed over; the directory, or a symbolic link on the way to it or to
// one of its files, replaced, missing for a moment, or back (which is how Kubernetes updates a
// ConfigMap).
//
// Every directory on those ways is watched for the one name the way takes there, so that a busy
// neighbour is no change. inotify knows nothing of changes made on other machines to a network file
// system, nor of mounts.
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

namespace sluice {

class RuleWatch {
 public:
  explicit RuleWatch(std::filesystem::path directory);
  ~RuleWatch();
  RuleWatch(const RuleWatch&) = delete;
  RuleWatch& operator=(const RuleWatch&) = delete;

  // Follows the ways as they are now. What changes after Renew has begun will be noticed, so call
  // it before the files are read. The error says what is not watched.
  Result<void> Renew();

  // Readable when something has happened that TakeChanges must look at. -1: nothing is watched.
  int descriptor() const { return inotify_; }

  // Forgets what has happened since the last call. Returns whether any of it was a change.
  bool TakeChanges();

 private:
  using Path = std::filesystem::path;

  // What matters in one directory.
  struct Watched {
    bool rule_files = false;
    std::set<std::string, std::less<>> names;
  };
  using WatchedByDescriptor = std::map<int, Watched>;

  std::optional<Path> Follow(const Path& path, int links_left);
  Watched* Watch(const Path& directory, std::uint32_t events);
  void FollowFileLinks(const Path& directory);
  void DropAllBut(const WatchedByDescriptor& kept);

  const Path directory_;
  int inotify_ = -1;
  int error_ = 0;  // of the last call that failed
  WatchedByDescriptor watched_;
  WatchedByDescriptor renewed_;  // becomes watched_
};

}  // namespace sluice
