// Loading and reloading certificates.
#include "net/tls_context.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ctime>
#include <filesystem>
#include <limits>
#include <string>

#include "tests/support/captured_log.h"
#include "tests/support/certificates.h"

namespace sluice::net {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

void Replace(const std::string& from, const std::string& to) {
  std::filesystem::copy_file(from, to, std::filesystem::copy_options::overwrite_existing);
}

class TlsContext_Test : public ::testing::Test {
 protected:
  TlsFiles Files() const {
    return {.certificate_chain = first_.chain, .private_key = first_.key, .ca = authority_.path()};
  }
  static std::string LoadError(TlsFiles paths) {
    const auto loaded = TlsServerContext::Load({.paths = std::move(paths)});
    return loaded ? "" : loaded.error().message;
  }

  const test::TempDir dir_;
  const test::Authority authority_{dir_, "ca"};
  const test::Certificate first_ = authority_.Issue({.name = "first", .alternative_names = {}});
  const test::Certificate second_ = authority_.Issue({.name = "second", .alternative_names = {}});
};

TEST_F(TlsContext_Test, Load_NamesTheInvalidFile) {
  EXPECT_EQ(LoadError(Files()), "");
  TlsFiles missing = Files();
  missing.certificate_chain += ".none";
  EXPECT_EQ(LoadError(missing),
            missing.certificate_chain + " cannot be read: No such file or directory");
  TlsFiles swapped = Files();
  std::swap(swapped.certificate_chain, swapped.private_key);
  EXPECT_THAT(LoadError(swapped), StartsWith(first_.key + ": no certificate in PEM format"));
  TlsFiles other_key = Files();
  other_key.private_key = second_.key;
  EXPECT_THAT(LoadError(other_key),
              StartsWith(second_.key + ": the private key does not match the certificate"));
  TlsFiles no_authority = Files();
  no_authority.ca = first_.key;
  EXPECT_THAT(LoadError(no_authority), StartsWith(first_.key + ": no certificates in PEM format"));
  TlsFiles cut = Files();
  cut.ca = dir_.Write("cut.pem", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n");
  EXPECT_THAT(LoadError(cut), StartsWith(cut.ca + ": no certificates in PEM format"));
  EXPECT_EQ(LoadError({}), "TLS needs a certificate and a private key");
}

TEST_F(TlsContext_Test, Load_KeyWithPassphrase_FailsWithoutAsking) {
  TlsFiles files = Files();
  files.private_key = dir_.path() / "locked.key";
  const std::string command = "openssl ec -aes128 -passout pass:secret -in " + first_.key +
                              " -out " + files.private_key + " 2>/dev/null";
  ASSERT_EQ(0, std::system(command.c_str()));
  EXPECT_THAT(LoadError(files), HasSubstr("the key has a passphrase"));
}

TEST_F(TlsContext_Test, Reload_ReplacesTheSetupOnlyIfFilesChanged) {
  const test::CapturedLog log;
  const auto context = TlsServerContext::Load({.paths = Files()}).value();
  const auto before = context->setup();
  EXPECT_FALSE(context->Reload());
  EXPECT_EQ(context->setup(), before);
  Replace(second_.chain, first_.chain);
  Replace(second_.key, first_.key);
  EXPECT_TRUE(context->Reload());
  EXPECT_NE(context->setup(), before);
  EXPECT_EQ(log.CountLines("have changed; certificate: valid until"), 1) << log.text();
}

TEST_F(TlsContext_Test, Reload_FilesCannotBeUsed_KeepsTheOldSetupAndLogsEachCauseOnce) {
  const test::CapturedLog log;
  const auto context = TlsServerContext::Load({.paths = Files()}).value();
  const auto before = context->setup();
  const test::Certificate kept = authority_.Issue({.name = "kept", .alternative_names = {}});
  Replace(first_.key, kept.key);

  Replace(second_.key, first_.key);  // the new certificate is not in place yet
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(context->Reload());
  EXPECT_EQ(log.CountLines("the old ones stay in use"), 1) << log.text();
  std::filesystem::remove(first_.key);
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(context->Reload());
  EXPECT_EQ(log.CountLines("the old ones stay in use"), 2) << log.text();
  EXPECT_EQ(context->setup(), before);

  Replace(second_.key, first_.key);
  Replace(second_.chain, first_.chain);
  EXPECT_TRUE(context->Reload());
}

TEST_F(TlsContext_Test, Expiry_FollowsTheCertificateInUse) {
  const test::Certificate expired =
      authority_.Issue({.name = "expired", .alternative_names = {}, .days = -1});
  const auto context = TlsServerContext::Load({.paths = Files()}).value();
  const double now = static_cast<double>(std::time(nullptr));
  const double day = 24 * 60 * 60;
  EXPECT_NEAR(context->Expiry(), now + 30 * day, day);
  Replace(expired.chain, first_.chain);
  Replace(expired.key, first_.key);
  EXPECT_TRUE(context->Reload());
  EXPECT_NEAR(context->Expiry(), now - day, day / 2);
  EXPECT_EQ(TlsClientContext::Load({}).value()->Expiry(), std::numeric_limits<double>::infinity());
}

TEST_F(TlsContext_Test, Load_ForAClient_NeedsBothCertificateAndKeyOrNeither) {
  EXPECT_TRUE(TlsClientContext::Load({}));
  EXPECT_TRUE(TlsClientContext::Load(Files()));
  TlsFiles without_key = Files();
  without_key.private_key.clear();
  EXPECT_FALSE(TlsClientContext::Load(without_key));
  TlsFiles without_certificate = Files();
  without_certificate.certificate_chain.clear();
  EXPECT_FALSE(TlsClientContext::Load(without_certificate));
}

}  // namespace
}  // namespace sluice::net
