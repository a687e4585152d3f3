// Where Redis is and how to log in:
//   redis://[[user]:password@]host[:port][/db][?client_name=NAME]
//   unix://[[user]:password@]/path/to/socket[?db=N&client_name=NAME]
// Reserved characters in user, password, path and NAME are percent-encoded.
#pragma once

#include <string>
#include <string_view>

#include "base/address.h"
#include "base/result.h"

namespace sluice {

struct RedisUrl {
  Address address;
  std::string user;      // empty: Redis' default user
  std::string password;  // empty: no authentication
  int database = 0;
  std::string client_name = "sluiced";

  // For logs: the address and database, never the password.
  std::string ToString() const;

  // The error says what is wrong and what is allowed, and repeats no part of `text`.
  static Result<RedisUrl> Parse(std::string_view text);
};

}  // namespace sluice
