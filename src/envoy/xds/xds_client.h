// Receives rules from a control plane by aggregated discovery (xDS, state of the world), as Envoy
// Gateway sends them: each response is the whole set, and is accepted (ACK) or refused with every
// mistake (NACK). While the control plane does not answer, the last accepted set stays in force.
//
//   thread "xds":  connect ─▶ request ─▶ read a set ─▶ take(set) ─▶ read the next set …
//                  and if the stream breaks: pause ─▶ connect …
//   any thread:    done(mistakes) ─▶ ACK or NACK
//
// Thread-safe.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/thread.h"
#include "config/settings.h"
#include "envoy/xds/resource_reader.h"

namespace sluice::envoy {

// What operators see.
struct XdsStatus {
  bool connected = false;                 // a stream is open, and has received a set
  std::size_t accepted = 0;               // sets since the start
  std::size_t refused = 0;                // likewise
  std::string version;                    // of the set in force, as the control plane names it
  std::size_t resources = 0;              // in this set
  std::optional<SteadyTime> accepted_at;  // absent: no set has been accepted
  // Version and first mistake of the last set; empty if that set was accepted.
  std::string last_refusal;
};

class XdsClient {
 public:
  // To be called on any thread, once for each taken set, with the set's mistakes. An empty list
  // means that the set is in force. If a newer set is taken before this call, the Done of the older
  // set may be dropped without a call.
  using Done = std::function<void(const std::vector<std::string>& mistakes)>;
  // Called on the client's thread. Must not wait for the set to be compiled.
  using Take = std::function<void(RuleResources set, Done done)>;

  XdsClient(XdsSettings settings, Take take);
  // Ends the stream. After that, `take` is not called, but a Done may still be called.
  ~XdsClient();
  XdsClient(const XdsClient&) = delete;
  XdsClient& operator=(const XdsClient&) = delete;

  XdsStatus status() const;

 private:
  struct Call;
  struct State;

  void Run();
  std::shared_ptr<Call> Connect();
  void ReadUntilBroken(const std::shared_ptr<Call>& call);
  void OnResponse(const ::envoy::service::discovery::v3::DiscoveryResponse& response);

  const XdsSettings settings_;
  const Take take_;
  const std::shared_ptr<State> state_;
  std::string last_cause_;  // why the last stream has ended; used by the thread only
  Thread thread_;           // declared last: it uses all of the above
};

}  // namespace sluice::envoy
