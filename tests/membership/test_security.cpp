#include "base/expect_error.h"
#include "membership/running_server.h"

#include <lockstep/base/crypto.h>
#include <lockstep/base/temporary_folder.h>
#include <lockstep/net/certificates/certificates.h>
#include <lockstep/net/tls_contexts.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/asio/ssl/context.hpp>
#include <fstream>
#include <nlohmann/json.hpp>

namespace lockstep::net {
namespace {

using test::expect_error;

TEST(Security, ProofsAreOfOneSecretOnePersonAndOneNonce) {
  const std::string proof = prove("secret", "worker a", "nonce");
  EXPECT_EQ(proof.size(), 64U);
  EXPECT_TRUE(is_proof(proof, "secret", "worker a", "nonce"));
  EXPECT_FALSE(is_proof(proof, "Secret", "worker a", "nonce"));
  EXPECT_FALSE(is_proof(proof, "secret", "worker b", "nonce"));
  EXPECT_FALSE(is_proof(proof, "secret", "worker a", "nonces"));
  EXPECT_FALSE(is_proof("", "secret", "worker a", "nonce"));
  EXPECT_NE(random_token(), random_token());
}

TEST(Security, TheSecretIsAFilesFirstLine) {
  const TemporaryFolder folder("lockstep-secret");
  const std::string file = folder.path() / "secret";
  ClusterSettings settings;
  EXPECT_EQ(read_secret(settings), "");
  settings.secret.file = file;
  expect_error(ErrorKind::config, {"cannot read the secret from", "secret'"}, [&] { read_secret(settings); });
  std::ofstream(file) << "swordfish\n";
  EXPECT_EQ(read_secret(settings), "swordfish");
  settings.secret.text = "given";
  EXPECT_EQ(read_secret(settings), "given");
}

TEST(Security, PasswordsComeFromTheSettingsOrTheFile) {
  const TemporaryFolder folder("lockstep-passwords");
  init_certificates(folder.path() / "certs", {"localhost"}, 30);
  const auto node = folder.path() / "certs" / "localhost";
  ClusterSettings settings;
  EXPECT_EQ(make_service_tls(settings).context, nullptr);
  settings.enable_ssl = true;
  settings.config_file = node / "config.json";
  EXPECT_NE(make_service_tls(settings).context, nullptr);
  EXPECT_NE(make_member_tls(settings).context, nullptr);
  settings.server_password.text = "wrong";
  expect_error(ErrorKind::config, {"server.p12", "the password is wrong"}, [&] { make_service_tls(settings); });
  EXPECT_NE(make_member_tls(settings).context, nullptr) << "the other side's password";
  settings.server_password = {.text = {}, .file = node / "password"};
  EXPECT_NE(make_service_tls(settings).context, nullptr);
  settings.client_password.file = "/nowhere";
  expect_error(ErrorKind::config, {"cannot read the password from '/nowhere'"}, [&] { make_member_tls(settings); });
}

TEST(Security, CertificatesAreLookedAtAsOftenAsTheFileSays) {
  const TemporaryFolder folder("lockstep-checks");
  init_certificates(folder.path() / "certs", {"localhost"}, 30);
  const auto file = folder.path() / "certs" / "localhost" / "config.json";
  ClusterSettings settings;
  EXPECT_FALSE(make_member_tls(settings).check_of_certificates.call) << "without TLS there is nothing to do";
  settings.enable_ssl = true;
  settings.config_file = file;
  EXPECT_EQ(make_member_tls(settings).check_of_certificates.interval, std::chrono::hours(168));
  auto config = nlohmann::json::parse(std::ifstream(file));
  config["cert_check_interval_in_hour"] = 5;
  std::ofstream(file) << config.dump();
  const auto check = make_member_tls(settings).check_of_certificates;
  EXPECT_EQ(check.interval, std::chrono::hours(5));
  const test::LogLines log;
  check.call();
  EXPECT_THAT(log.with("expires in"), testing::HasSubstr("client.p12' expires in "));
}

TEST(Security, WithoutTlsTheSchedulerStaysOnThisMachine) {
  ClusterSettings settings;
  for (const auto* host : {"127.0.0.1", "127.1.2.3", "::1", "localhost"}) {
    settings.host = host;
    EXPECT_NO_THROW(require_secure(settings)) << host;
  }
  for (const auto* host : {"10.0.0.1", "0.0.0.0", "::"}) {
    settings = {};
    settings.host = host;
    expect_error(ErrorKind::environment, {host, "cluster.enable_ssl", "cluster.allow_insecure"},
                 [&] { require_secure(settings); });
    settings.allow_insecure = true;
    EXPECT_NO_THROW(require_secure(settings));
    settings.allow_insecure = false;
    settings.enable_ssl = true;
    EXPECT_NO_THROW(require_secure(settings));
  }
}

}  // namespace
}  // namespace lockstep::net
