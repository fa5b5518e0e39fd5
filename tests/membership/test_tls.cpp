// Who may talk to whom: real sockets, and certificates made for the purpose. Each refusal is a line in the log of the
// side that refuses, with the peer and the reason, and an error of the other.
#include "base/expect_error.h"
#include "membership/running_server.h"
#include "net/certificate_maker.h"

#include <lockstep/membership/service/status.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/x509v3.h>

#include <boost/asio/ssl/context.hpp>
#include <nlohmann/json.hpp>

namespace lockstep::membership {
namespace {

using namespace net;

using namespace std::chrono_literals;
using test::Authority;
using test::expect_error;
using test::LogLines;
using test::NodeFiles;
using test::RunningServer;
using test::server_of;
using test::start_workers;
using test::worker_of;
using testing::ContainsRegex;
using testing::HasSubstr;
using Context = std::shared_ptr<boost::asio::ssl::context>;

class SchedulerTls : public testing::Test {
 protected:
  NodeFiles node(const Identity& identity, const std::string& revoked = "") {
    return write_node(folder_, identity, authority_, revoked);
  }

  ServerOptions server_with(const Context& tls) {
    auto options = server_of(1);
    options.tls = tls;
    return options;
  }

  /// A worker that shows what `tls` holds is refused: an error of its with these words.
  void refuse(std::uint16_t port, const Context& tls, ErrorKind kind, std::initializer_list<std::string_view> words) {
    auto worker = worker_of(port, "w");
    worker.tls = tls;
    worker.start_timeout = kind == ErrorKind::timeout ? 1s : 60s;
    expect_error(kind, words, [&] { const WorkerSession session(worker); });
  }

  /// The scheduler says that it refused this machine's peer for that reason.
  void expect_refusal(const std::string& reason) {
    EXPECT_THAT(log_.with(reason), ContainsRegex("refused 127\\.0\\.0\\.1:[0-9]+: ")) << reason;
    EXPECT_THAT(log_.with(reason), HasSubstr(reason));
  }

  TemporaryFolder folder_{"lockstep-tls"};
  Authority authority_;
  Identity good_ = authority_.issue("good");
  LogLines log_;
};

TEST_F(SchedulerTls, BothSidesShowTheirCertificates) {
  const auto files = node(good_);
  auto options = server_with(files.server());
  options.workers = 2;
  RunningServer server(options);
  auto first = worker_of(server.port(), "w0");
  first.tls = files.client();
  first.host = "localhost";  // the certificate is for both names
  auto second = worker_of(server.port(), "w1");
  second.tls = first.tls;
  auto sessions = start_workers({first, second});
  EXPECT_EQ(sessions[1]->place().rank, 1);
  const auto status = nlohmann::json::parse(fetch_status("localhost", server.port(), first.tls));
  EXPECT_EQ(status["secured"], true);
  EXPECT_EQ(status["present"], 2);
  sessions.clear();
  EXPECT_TRUE(server.wait().ok);
}

TEST_F(SchedulerTls, RefusesAWorkerWithoutACertificate) {
  const auto files = node(good_);
  RunningServer server(server_with(files.server()));
  const auto bare = std::make_shared<boost::asio::ssl::context>(boost::asio::ssl::context::tls_client);
  bare->load_verify_file(files.files.ca_cert);
  bare->set_verify_mode(boost::asio::ssl::verify_peer);
  refuse(server.port(), bare, ErrorKind::environment, {"it requires a certificate, and this side sent none"});
  expect_refusal("it sent no certificate");
}

TEST_F(SchedulerTls, RefusesAWorkerOfAnotherAuthority) {
  const auto files = node(good_);
  RunningServer server(server_with(files.server()));
  const Authority other;
  auto stranger = node(other.issue("stranger"));
  refuse(server.port(), stranger.client(), ErrorKind::environment,
         {"it does not trust the authority that signed the certificate of this side"});
  expect_refusal("its certificate is not by an authority in ca_cert_path");
}

TEST_F(SchedulerTls, RefusesASchedulerOfAnotherAuthority) {
  const Authority other;
  const auto stranger = node(other.issue("stranger"));
  RunningServer server(server_with(stranger.server()));
  refuse(server.port(), node(good_).client(), ErrorKind::environment,
         {"127.0.0.1:", "its certificate is not by an authority in ca_cert_path"});
  expect_refusal("it does not trust the authority that signed the certificate of this side");
}

TEST_F(SchedulerTls, RefusesWhatHasExpired) {
  const auto files = node(good_);
  const auto old = node(authority_.issue("old", {"127.0.0.1"}, std::chrono::hours(-24)));
  {
    RunningServer server(server_with(files.server()));
    refuse(server.port(), old.client(), ErrorKind::environment,
           {"it reports that the certificate of this side has expired (it was valid until 20"});
    expect_refusal("its certificate has expired");
  }
  RunningServer server(server_with(old.server()));
  refuse(server.port(), files.client(), ErrorKind::environment, {"127.0.0.1:", ": its certificate has expired"});
  expect_refusal("it reports that the certificate of this side has expired");
  EXPECT_THAT(log_.with("peers will refuse it"), HasSubstr("the certificate /CN=old in "));
}

TEST_F(SchedulerTls, RefusesWhatIsRevoked) {
  const auto stolen = authority_.issue("stolen");
  const auto list = authority_.revoke({stolen.certificate.get()});
  const auto files = node(good_, list);
  {
    RunningServer server(server_with(files.server()));
    refuse(server.port(), node(stolen).client(), ErrorKind::environment,
           {"it reports that the certificate of this side is revoked"});
    expect_refusal("its certificate is revoked");
    auto worker = worker_of(server.port(), "w");
    worker.tls = files.client();
    start_workers({worker}).clear();
    EXPECT_TRUE(server.wait().ok) << "one that is not in the list";
  }
  RunningServer server(server_with(node(stolen).server()));
  refuse(server.port(), node(good_, list).client(), ErrorKind::environment,
         {"127.0.0.1:", "its certificate is revoked"});
  expect_refusal("it reports that the certificate of this side is revoked");
}

/// As other tools make them: `identity` without an extension, or with another one instead, and signed anew.
Identity remade(Identity identity, const Authority& by, int extension, const char* value = nullptr) {
  X509* const certificate = identity.certificate.get();
  ::X509_EXTENSION_free(::X509_delete_ext(certificate, ::X509_get_ext_by_NID(certificate, extension, -1)));
  if (value != nullptr) {
    auto* const added = ::X509V3_EXT_conf_nid(nullptr, nullptr, extension, value);
    EXPECT_EQ(::X509_add_ext(certificate, added, -1), 1);
    ::X509_EXTENSION_free(added);
  }
  EXPECT_GT(::X509_sign(certificate, by.identity().key.get(), ::EVP_sha256()), 0);
  return identity;
}

// Only the names of the two authorities are compared then, before the signature is.
TEST_F(SchedulerTls, SaysThatAnotherAuthorityHasTheSameName) {
  const Authority other;
  const auto stranger = node(remade(other.issue("stranger"), other, NID_authority_key_identifier));
  {
    RunningServer server(server_with(node(good_).server()));
    refuse(server.port(), stranger.client(), ErrorKind::environment,
           {"127.0.0.1:", "by another authority, of the same name as the one in ca_cert_path there", "certs init"});
    expect_refusal("its certificate is by another authority, of the same name as the one in ca_cert_path here");
  }
  RunningServer server(server_with(stranger.server()));
  refuse(server.port(), node(good_).client(), ErrorKind::environment,
         {"127.0.0.1:", "by another authority, of the same name as the one in ca_cert_path here", "certs init"});
}

TEST_F(SchedulerTls, SaysThatACertificateIsForAnotherUse) {
  const auto for_servers = remade(authority_.issue("server"), authority_, NID_ext_key_usage, "serverAuth");
  const auto files = node(for_servers);
  const auto server_side = files.server();
  // Known before anybody is asked.
  expect_error(ErrorKind::config,
               {"client_cert_path", files.files.client_cert, "/CN=server", "clientAuth", "certs init"},
               [&] { files.client(); });
  RunningServer server(server_with(server_side));
  const auto careless = node(good_).client();
  ASSERT_EQ(::SSL_CTX_use_certificate(careless->native_handle(), for_servers.certificate.get()), 1);
  ASSERT_EQ(::SSL_CTX_use_PrivateKey(careless->native_handle(), for_servers.key.get()), 1);
  refuse(server.port(), careless, ErrorKind::environment,
         {"127.0.0.1:", "not for this use", "clientAuth for a worker"});
  expect_refusal("its certificate is not for this use");
}

TEST_F(SchedulerTls, SaysFromWhenACertificateIsValid) {
  const auto early = issue(authority_.identity(), {.name = "early", .hosts = {"127.0.0.1"}, .valid_from = 24h});
  RunningServer server(server_with(node(good_).server()));
  refuse(server.port(), node(early).client(), ErrorKind::environment,
         {"127.0.0.1:", "it refused the certificate of this side (it is valid from 20", " UTC on)"});
  expect_refusal("its certificate is not valid yet (it is valid from 20");
  EXPECT_THAT(log_.with("till then"), HasSubstr("the certificate /CN=early in "));
}

TEST_F(SchedulerTls, AnExpiredRevocationListIsSaidBeforeAnybodyIsRefusedForIt) {
  const auto files = node(good_, authority_.revoke({}, -60s));
  expect_error(ErrorKind::config, {"crl_path", files.files.crl, "expired on 20", "new one from its authority"},
               [&] { files.server(); });
}

TEST_F(SchedulerTls, ARevocationListThatExpiresLaterIsNotTakenForTheWorkersCertificate) {
  const auto later = node(good_, authority_.revoke({})).server();
  ::X509_VERIFY_PARAM_set_time(::SSL_CTX_get0_param(later->native_handle()), std::time(nullptr) + 7200);
  RunningServer server(server_with(later));
  refuse(server.port(), node(good_).client(), ErrorKind::environment,
         {"127.0.0.1:", "the certificate of this side is valid", "revocation list (crl_path)"});
  expect_refusal("the revocation list in crl_path here has expired");
}

TEST_F(SchedulerTls, RefusesASchedulerWithAnotherName) {
  RunningServer server(server_with(node(authority_.issue("elsewhere", {"elsewhere", "10.0.0.1"})).server()));
  refuse(server.port(), node(good_).client(), ErrorKind::environment,
         {"127.0.0.1:", "its certificate is for another host name (IP address mismatch)"});
  expect_error(ErrorKind::io, {"no answer at localhost:", "another host name (hostname mismatch)"},
               [&] { fetch_status("localhost", server.port(), node(good_).client()); });
  expect_refusal("it refused the certificate of this side");
}

TEST_F(SchedulerTls, RefusesAWeakCipher) {
  const auto files = node(good_);
  RunningServer server(server_with(files.server()));
  const auto weak = files.client();
  ::SSL_CTX_set_security_level(weak->native_handle(), 0);
  SSL_CTX_set_max_proto_version(weak->native_handle(), TLS1_2_VERSION);
  ASSERT_EQ(::SSL_CTX_set_cipher_list(weak->native_handle(), "ECDHE-ECDSA-AES128-SHA"), 1);
  refuse(server.port(), weak, ErrorKind::environment, {"it found no cipher or certificate that suits both sides"});
  expect_refusal("it offers no cipher that is allowed here (weak cipher)");
}

TEST_F(SchedulerTls, RefusesOldVersionsOfTls) {
  const auto files = node(good_);
  RunningServer server(server_with(files.server()));
  const auto old = files.client();
  ::SSL_CTX_set_security_level(old->native_handle(), 0);
  ASSERT_EQ(::SSL_CTX_set_cipher_list(old->native_handle(), "ALL:@SECLEVEL=0"), 1);
  SSL_CTX_set_min_proto_version(old->native_handle(), TLS1_1_VERSION);
  SSL_CTX_set_max_proto_version(old->native_handle(), TLS1_1_VERSION);
  refuse(server.port(), old, ErrorKind::environment, {"no version of TLS suits both sides"});
  expect_refusal("it does not support TLS 1.2 or newer");
}

TEST_F(SchedulerTls, OnlyTheCiphersOfTheListAreSpoken) {
  auto files = node(good_);
  files.files.ciphers = {"ECDHE-ECDSA-AES128-GCM-SHA256"};
  RunningServer server(server_with(files.server()));
  const auto other = node(good_).client();
  SSL_CTX_set_max_proto_version(other->native_handle(), TLS1_2_VERSION);
  ASSERT_EQ(::SSL_CTX_set_cipher_list(other->native_handle(), "ECDHE-ECDSA-AES256-GCM-SHA384"), 1);
  refuse(server.port(), other, ErrorKind::environment, {"it found no cipher"});
  ASSERT_EQ(::SSL_CTX_set_cipher_list(other->native_handle(), "ECDHE-ECDSA-AES128-GCM-SHA256"), 1);
  auto worker = worker_of(server.port(), "w");
  worker.tls = other;
  start_workers({worker}).clear();
  EXPECT_TRUE(server.wait().ok);
}

TEST_F(SchedulerTls, RefusesPlainTextOnATlsPort) {
  RunningServer server(server_with(node(good_).server()));
  refuse(server.port(), nullptr, ErrorKind::timeout, {"check that it has enable_ssl"});
  expect_refusal("it does not use TLS, which this port requires (enable_ssl)");
  EXPECT_THAT(test::get(server.port(), "/v1/status"), HasSubstr("this port uses TLS"));
}

TEST_F(SchedulerTls, RefusesTlsOnAPlainPort) {
  RunningServer server(server_of(1));
  refuse(server.port(), node(good_).client(), ErrorKind::timeout,
         {"in the middle of the TLS handshake; check that it has enable_ssl"});
  expect_refusal("it uses TLS, and this port does not (enable_ssl is off here)");
}

TEST_F(SchedulerTls, WarnsOfWhatExpiresSoon) {
  auto files = node(authority_.issue("soon", {"127.0.0.1"}, std::chrono::hours(24 * 10 + 1)));
  files.server();
  EXPECT_THAT(log_.with("expires in"), ContainsRegex("the certificate /CN=soon in '.*' expires in 10 day"));
  const auto said = log_.with("expires in");
  files.files.warning_days = 7;
  files.client();
  EXPECT_EQ(log_.with("expires in"), said);
}

std::size_t count_of(const std::string& words, const std::string& text) {
  std::size_t count = 0;
  for (auto at = text.find(words); at != std::string::npos; at = text.find(words, at + 1)) ++count;
  return count;
}

TEST_F(SchedulerTls, WarnsAgainWhileItRuns) {
  const auto files = node(authority_.issue("soon", {"127.0.0.1"}, std::chrono::hours(24 * 10 + 1)));
  auto names = files.files;  // by which the two sides' warnings are told apart
  names.server_cert = "server.p12";
  names.client_cert = "client.p12";
  const auto check_of = [&](TlsSide side, const Context& tls) {
    return PeriodicTask{20ms, [=] { warn_of_expiry(*tls, side, names); }};
  };
  auto options = server_with(files.server());
  options.check_of_certificates = check_of(TlsSide::server, options.tls);
  RunningServer server(options);
  auto worker = worker_of(server.port(), "w");
  worker.tls = files.client();
  worker.check_of_certificates = check_of(TlsSide::client, worker.tls);
  auto sessions = start_workers({worker});
  for (const auto* file : {"server.p12", "client.p12"}) {
    const auto words = fmt::format("'{}' expires in 10 day", file);
    const auto deadline = std::chrono::steady_clock::now() + 60s;
    while (count_of(words, log_.with(words)) < 3 && std::chrono::steady_clock::now() < deadline) {
      std::this_thread::sleep_for(10ms);
    }
    EXPECT_GE(count_of(words, log_.with(words)), 3U) << "again and again";
  }
  sessions.clear();
  EXPECT_TRUE(server.wait().ok);
}

}  // namespace
}  // namespace lockstep::membership
