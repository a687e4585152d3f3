#include "app/rule_watch.h"

#include <sys/inotify.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include <fmt/format.h>

namespace sluice {
namespace {

namespace fs = std::filesystem;

// The most symbolic links to follow on one path; the kernel's own limit.
constexpr int kMostLinks = 40;

constexpr std::uint32_t kWayChanges =
    IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | IN_DELETE_SELF | IN_MOVE_SELF | IN_ATTRIB;
constexpr std::uint32_t kFileChanges = kWayChanges | IN_MODIFY | IN_CLOSE_WRITE;

// The directory itself was removed or moved, or events were lost.
constexpr std::uint32_t kSelfChanges =
    IN_DELETE_SELF | IN_MOVE_SELF | IN_UNMOUNT | IN_IGNORED | IN_Q_OVERFLOW;

}  // namespace

RuleWatch::RuleWatch(fs::path directory, const FileChoice& choice)
    : directory_(std::move(directory)),
      choice_(choice),
      inotify_(inotify_init1(IN_NONBLOCK | IN_CLOEXEC)) {
  error_ = inotify_ < 0 ? errno : 0;
}

RuleWatch::~RuleWatch() {
  if (inotify_ >= 0) close(inotify_);
}

Result<void> RuleWatch::Renew() {
  if (inotify_ >= 0) {
    error_ = 0;
    renewed_.clear();
    std::error_code no_working_directory;
    const fs::path absolute = fs::absolute(directory_, no_working_directory);
    if (const auto directory = Follow(absolute, kMostLinks)) WatchRuleFiles(*directory);
    for (const auto& [watch, what] : watched_) {
      if (!renewed_.contains(watch)) inotify_rm_watch(inotify_, watch);
    }
    watched_ = std::move(renewed_);
  }
  if (error_ == 0) return {};
  return Error{ErrorCode::kUnavailable, fmt::format("inotify: {}", std::strerror(error_))};
}

// Returns the directory or file that `path` leads to. Watches every directory on the path before
// reading it. If a component is missing, returns nullopt; the directory in which the component is
// missing is then watched.
std::optional<fs::path> RuleWatch::Follow(const fs::path& path, int links_left) {
  fs::path at = path.root_path();
  for (const fs::path& name : path.relative_path()) {
    if (name.empty() || name == ".") continue;
    if (name == "..") {
      at = at.parent_path();  // `at` holds no links
      continue;
    }
    if (Watched* watched = Watch(at, kWayChanges)) watched->names.insert(name.native());
    std::error_code error;
    const fs::path next = at / name;
    const fs::file_status status = fs::symlink_status(next, error);
    if (!fs::exists(status)) return std::nullopt;
    if (!fs::is_symlink(status)) {
      at = next;
      continue;
    }
    const fs::path target = fs::read_symlink(next, error);
    if (error || links_left == 0) return std::nullopt;
    const auto followed = Follow(at / target, links_left - 1);
    if (!followed) return std::nullopt;
    at = *followed;
  }
  return at;
}

RuleWatch::Watched* RuleWatch::Watch(const fs::path& directory, std::uint32_t events) {
  const int watch =
      inotify_add_watch(inotify_, directory.c_str(), events | IN_ONLYDIR | IN_MASK_ADD);
  if (watch >= 0) return &renewed_[watch];
  // If a directory has just been removed, its parent reports the change.
  if (errno != ENOENT && errno != ENOTDIR) error_ = errno;
  return nullptr;
}

// If a rule file is a link, its target is watched, too: the target may be edited in place.
void RuleWatch::WatchRuleFiles(const Path& directory) {
  if (Watched* watched = Watch(directory, kFileChanges)) watched->rule_files = true;
  std::error_code error;
  fs::directory_iterator entries(directory, error);
  for (; !error && entries != fs::directory_iterator(); entries.increment(error)) {
    const std::string name = entries->path().filename();
    std::error_code gone;
    const fs::file_type type = entries->symlink_status(gone).type();
    if (type == fs::file_type::symlink && choice_.is_rule_file(name)) {
      const auto file = Follow(entries->path(), kMostLinks);
      if (file && file->has_parent_path()) Watch(file->parent_path(), kFileChanges);
    }
    if (type == fs::file_type::directory && choice_.recursive && !name.starts_with('.')) {
      WatchRuleFiles(entries->path());
    }
  }
}

bool RuleWatch::TakeChanges() {
  alignas(inotify_event) std::array<char, 16 * 1024> buffer;
  bool changed = false;
  for (ssize_t size; (size = read(inotify_, buffer.data(), buffer.size())) > 0;) {
    for (ssize_t at = 0; at < size;) {
      const auto& event = *reinterpret_cast<const inotify_event*>(buffer.data() + at);
      at += static_cast<ssize_t>(sizeof(event) + event.len);
      const auto watched = watched_.find(event.wd);
      if (event.mask & IN_Q_OVERFLOW) changed = true;
      if (watched == watched_.end()) continue;  // the event of a watch that was removed
      const std::string_view name = event.len > 0 ? event.name : "";
      changed |= (event.mask & kSelfChanges) != 0 || watched->second.names.contains(name) ||
                 (watched->second.rule_files && choice_.is_rule_file(name));
    }
  }
  return changed;
}

}  // namespace sluice
