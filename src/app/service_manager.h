// Reports the server's state to the service manager that started it, such as systemd with
// Type=notify, by the protocol of sd_notify(3): one datagram to the socket in $NOTIFY_SOCKET.
// Without that variable, nothing happens.
//
// Thread-safe.
#pragma once

#include <string_view>

#include "admin/rule_source.h"

namespace sluice::service_manager {

// Reports that the rules are loaded and all listeners accept calls, whether Redis is reachable or
// not. `systemctl status` shows `status`.
void NotifyReady(std::string_view status);

// Reports that a reload was requested. NotifyReloaded must follow.
void NotifyReloading();
void NotifyReloaded(const ReloadResult& result);

void NotifyStopping();

}  // namespace sluice::service_manager
