// Decides which calls of one connection are admitted, and counts them. Each call takes one of the
// server's places and counts toward its peer's share of the places. A call of a probe instead takes
// one of a few places that each connection has for such calls.
//
// Loop thread only.
#pragma once

#include "rpc/handler.h"
#include "rpc/http2/loop_state.h"

namespace sluice::rpc::http2 {

class CallAdmission {
 public:
  // Both must outlive this object.
  CallAdmission(LoopState& loop, PeerUse& peer) : loop_(loop), peer_(peer) {}

  // From now on, only probes are admitted.
  void AdmitOnlyProbes() { only_probes_ = true; }

  // Takes a place for a call. Returns false if the call is not admitted.
  bool Admit(const Call& call, bool is_probe);
  void Release(bool is_probe);

  int open_probes() const { return probes_; }
  // Whether any call was admitted so far.
  bool used() const { return used_; }

 private:
  bool TakePlace(const Call& call);

  LoopState& loop_;
  PeerUse& peer_;
  int probes_ = 0;
  bool only_probes_ = false;
  bool used_ = false;
};

}  // namespace sluice::rpc::http2
