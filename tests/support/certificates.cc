#include "tests/support/certificates.h"

#include <cstdlib>

#include <fmt/format.h>

#include "tests/support/require.h"

namespace sluice::test {
namespace {

void OpenSsl(const std::string& arguments) {
  const std::string command = "openssl " + arguments + " 2>/dev/null";
  Require(std::system(command.c_str()) == 0, command);
}

std::string NewKey(std::string_view kind) {
  return kind == "rsa" ? "-newkey rsa:2048" : "-newkey ec -pkeyopt ec_paramgen_curve:P-256";
}

Certificate Files(const std::string& directory, const std::string& name) {
  return {.chain = fmt::format("{}/{}.pem", directory, name),
          .key = fmt::format("{}/{}.key", directory, name)};
}

}  // namespace

Authority::Authority(const TempDir& dir, std::string name)
    : directory_(dir.path()), ca_(Files(directory_, name)) {
  OpenSsl(fmt::format("req -x509 {} -nodes -keyout {} -out {} -days 30 -subj /CN={}", NewKey("ec"),
                      ca_.key, ca_.chain, name));
}

Certificate Authority::Issue(const Request& request) const {
  const Certificate made = Files(directory_, request.name);
  const std::string csr = made.chain + ".csr";
  const std::string names =
      request.alternative_names.empty()
          ? ""
          : fmt::format("-addext subjectAltName={}", request.alternative_names);
  OpenSsl(fmt::format("req {} -nodes -keyout {} -out {} -subj /CN={} {}", NewKey(request.key),
                      made.key, csr, request.name, names));
  OpenSsl(fmt::format("x509 -req -in {} -CA {} -CAkey {} -days {} -copy_extensions copy -out {}",
                      csr, ca_.chain, ca_.key, request.days, made.chain));
  return made;
}

}  // namespace sluice::test
