#include "app/service_manager.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>

#include <fmt/format.h>

#include "base/clock.h"

namespace sluice::service_manager {
namespace {

// If a state cannot be delivered, it is dropped: the server also works without a service manager.
void Send(std::string_view state) {
  const char* const variable = std::getenv("NOTIFY_SOCKET");
  if (variable == nullptr) return;
  const std::string_view path = variable;
  sockaddr_un address{};
  if (path.empty() || path.size() >= sizeof(address.sun_path)) return;
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  if (path.front() == '@') address.sun_path[0] = '\0';  // of Linux' abstract namespace
  const int socket_fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (socket_fd < 0) return;
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size());
  static_cast<void>(sendto(socket_fd, state.data(), state.size(), MSG_NOSIGNAL,
                           reinterpret_cast<const sockaddr*>(&address), length));
  close(socket_fd);
}

}  // namespace

void NotifyReady(std::string_view status) { Send(fmt::format("READY=1\nSTATUS={}", status)); }

// systemd compares the time with the time of its own request.
void NotifyReloading() {
  using std::chrono::microseconds;
  const auto now = std::chrono::duration_cast<microseconds>(SteadyNow().time_since_epoch());
  Send(fmt::format("RELOADING=1\nMONOTONIC_USEC={}\nSTATUS=reading the rules", now.count()));
}

void NotifyReloaded(const ReloadResult& result) {
  NotifyReady(result.applied
                  ? fmt::format("rules: {} in force", result.rules)
                  : fmt::format("rules: refused, see the log; {} stay in force", result.rules));
}

void NotifyStopping() { Send("STOPPING=1\nSTATUS=draining"); }

}  // namespace sluice::service_manager
