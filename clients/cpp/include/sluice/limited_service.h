// Limits the methods of a gRPC service by rules, without changing them.
//
//   ShopService shop;                    // yours, synchronous or of gRPC's callback API
//   sluice::LimitedService limited(shop, Shop::service_full_name(), client, "shop");
//   builder.RegisterService(&limited);   // instead of &shop
//
// Each call is checked with the attribute `endpoint` (the call's full method, such as
// "/shop.v1.Shop/Pay") and with the attributes that `attributes` returns. A denied call ends with
// RESOURCE_EXHAUSTED; if a retry can succeed, `grpc-retry-pushback-ms` in the trailers says when.
// If no server answers and the client is kClosed, the call ends with UNAVAILABLE.
//
// This is a service and not one of gRPC's server interceptors (which are experimental): an
// interceptor cannot deny a call, because gRPC runs the method in any case. Interceptors of a
// server with such a service must not read received messages, because these are parsed later.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <grpcpp/impl/service_type.h>
#include <grpcpp/server_context.h>

#include "sluice/client.h"

namespace sluice {

// Returns additional attributes, from a call's metadata or peer. Called on any thread.
using CallAttributes = std::function<Attributes(const grpc::ServerContextBase&)>;

class LimitedService final : public grpc::Service {
 public:
  // `service` and `client` must outlive this object. Throws std::invalid_argument if no generated
  // code has a service named `full_name`, or if the methods of `service` are neither all
  // synchronous nor all of the callback API.
  LimitedService(grpc::Service& service, const std::string& full_name, Client& client,
                 const std::string& domain, CallAttributes attributes = {});

 private:
  std::vector<std::string> methods_;  // their full names, which gRPC does not copy
};

}  // namespace sluice
