// Certificates for tests, created by the openssl command in a temporary directory.
#pragma once

#include <string>
#include <string_view>

#include "tests/support/temp_dir.h"

namespace sluice::test {

// Paths of PEM files.
struct Certificate {
  std::string chain;
  std::string key;
};

// A certificate authority.
class Authority {
 public:
  // `name` must be unique among the authorities in `dir`.
  Authority(const TempDir& dir, std::string name);

  // The path of the authority's certificate.
  const std::string& path() const { return ca_.chain; }

  struct Request {
    std::string name;               // the files' name, and the common name
    std::string alternative_names;  // in openssl's format: "DNS:localhost,IP:127.0.0.1"
    int days = 30;                  // -1: expired yesterday
    std::string_view key = "ec";    // or "rsa"
  };
  Certificate Issue(const Request& request) const;

 private:
  const std::string directory_;
  const Certificate ca_;
};

}  // namespace sluice::test
