// Certificates of an authority of its own for redis-server, which then lets in only clients that
// have one, too.
#pragma once

#include <string>
#include <vector>

#include "tests/support/certificates.h"
#include "tests/support/temp_dir.h"

namespace sluice::test {

class RedisTls {
 public:
  // What the servers' certificate is for.
  static constexpr char kServerName[] = "redis.test";

  RedisTls();

  // For redis-server's command line.
  std::vector<std::string> arguments() const;

  const std::string& ca() const { return authority_.path(); }
  const Certificate& client() const { return client_; }

 private:
  const TempDir dir_;
  const Authority authority_{dir_, "redis-ca"};
  const Certificate server_;
  const Certificate client_;
};

}  // namespace sluice::test
