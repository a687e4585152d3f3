// Connecting: resolves the name, then tries its addresses in order.
#pragma once

#include <memory>

#include "base/address.h"
#include "base/clock.h"
#include "net/loop.h"
#include "net/poller.h"
#include "net/resolver.h"
#include "net/transport.h"

namespace sluice::net {

struct ConnectRequest {
  Address address;
  Duration timeout{};  // for each address of the name
  FlushStage stage = FlushStage::kStore;
  ConnectDone done;
};

// Implements Loop::Connect.
std::unique_ptr<ConnectAttempt> StartConnecting(Loop& loop, Poller& poller, Resolver& resolver,
                                                ConnectRequest request);

}  // namespace sluice::net
