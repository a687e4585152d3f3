// Watches one server by Admin.Watch. If the watch is lost, connects again a second later, or ten
// seconds later if the server has refused the credentials.
//
// Thread-safe. Must be destroyed while the io threads run, and not on one of them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/mutex.h"
#include "base/result.h"
#include "client/target.h"
#include "net/io_threads.h"
#include "sluice/v1/admin.pb.h"

namespace sluice {

class ServerWatch {
 public:
  struct State {
    std::string name;                            // for the operator
    std::shared_ptr<const v1::WatchFrame> last;  // null: none yet, or the watch is lost
    std::uint64_t frames = 0;                    // received since the start
    std::optional<Error> error;                  // why there is no watch
    std::string tried;                           // with `error`: the address that did not answer
    bool connected = false;                      // whether the server has ever answered
  };

  // `name`: the operator's name for the server. `io`, `target` and `tls` (null: plaintext) must
  // outlive this.
  ServerWatch(net::IoThreads& io, const std::string& name, const Target& target,
              const net::TlsClientContext* tls);
  ~ServerWatch();
  ServerWatch(const ServerWatch&) = delete;
  ServerWatch& operator=(const ServerWatch&) = delete;

  State Now() const SLUICE_EXCLUDES(mutex_);

 private:
  class Call;

  // Called on the io thread.
  void Connect();
  void OnTime();
  void OnFrame(v1::WatchFrame frame) SLUICE_EXCLUDES(mutex_);
  void OnLoss(Error error) SLUICE_EXCLUDES(mutex_);

  net::IoThreads& io_;
  const Target& target_;
  const net::TlsClientContext* const tls_;

  // Used by the io thread only.
  std::unique_ptr<net::Timer> timer_;
  std::unique_ptr<Call> call_;
  SteadyTime silent_since_;
  bool lost_ = false;

  mutable Mutex mutex_;
  State state_ SLUICE_GUARDED_BY(mutex_);
};

}  // namespace sluice
