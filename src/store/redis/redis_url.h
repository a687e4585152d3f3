// The addresses of a store's nodes or sentinels, and the login:
//   redis://[[user]:password@]host[:port][/db]              one node
//   unix://[[user]:password@]/path/to/socket                one node on this machine
//   redis+sentinel://[[user]:password@]host[:port],…/master[/db]
//                                                           the master named by sentinels
//   redis+cluster://[[user]:password@]host[:port],…         a Cluster; some of its nodes
// Each may end in ?name=value&…: client_name, db, user (if the password is set elsewhere),
// and for sentinels sentinel_user and sentinel_password. With `rediss` in place of `redis` all
// connections are TLS. Reserved characters in user, password, path, master and options must
// be percent-encoded.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/address.h"
#include "base/result.h"

namespace sluice {

// How a connection logs in, and the name that it sets.
struct RedisLogin {
  std::string user;      // empty: Redis' default user
  std::string password;  // empty: no authentication
  int database = 0;
  std::string client_name = "sluiced";
};

struct RedisUrl {
  enum class Kind : std::uint8_t { kSingle, kSentinel, kCluster };

  Kind kind = Kind::kSingle;
  bool tls = false;
  std::vector<Address> addresses;  // the node, the sentinels, or nodes of the Cluster
  RedisLogin login;
  std::string master;         // kSentinel: the name that sentinels use for it
  RedisLogin sentinel_login;  // kSentinel

  // For logs: addresses, master and database, never a password.
  std::string ToString() const;

  // The error states what is wrong and what is allowed. The error quotes no part of `text`, except
  // the name of a known option.
  static Result<RedisUrl> Parse(std::string_view text);
};

}  // namespace sluice
