// Peers that are no etcd, and TLS.
#include <lockstep/base/error.h>
#include <lockstep/cluster/elastic/etcd_rendezvous.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "support/etcd_server.h"
#include "support/raw_server.h"

namespace lockstep::cluster::elastic {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;

EtcdOptions options_for(std::uint16_t port, std::chrono::milliseconds timeout = 60s) {
  EtcdOptions options;
  options.address.servers = {{"127.0.0.1", port}};
  options.job = "job";
  options.timeout = timeout;
  return options;
}

/// What a launcher says of such a server.
std::string said_of(const EtcdOptions& options) {
  try {
    find_server(options);
  } catch (const Error& error) {
    return fmt::format("{}: {}", name(error.kind()), error.message());
  }
  return "no error";
}

std::string said_of_server(const std::function<void(int)>& serve, std::chrono::milliseconds timeout = 60s) {
  const test::RawServer server(serve);
  return said_of(options_for(server.port(), timeout));
}

constexpr auto kSoon = 2s;  // for servers that are waited for in vain

/// Reads one request and answers each with the same.
std::function<void(int)> answers(const std::string& answer) {
  return [answer](int connection) {
    while (!test::read_some(connection).empty() && test::write_all(connection, answer)) {
    }
  };
}

std::string http(const std::string& body, const std::string& status = "200 OK") {
  return fmt::format("HTTP/1.1 {}\r\nContent-Length: {}\r\n\r\n{}", status, body.size(), body);
}

constexpr const char* kNoEtcd = "does not answer as an etcd does";

TEST(EtcdPeers, AWebServer) {
  EXPECT_THAT(said_of_server(answers(http("<html>\xff hello", "404 Not Found"))),
              AllOf(HasSubstr("io: 127.0.0.1:"), HasSubstr(kNoEtcd), HasSubstr("status 404 and '<html>\\xff hello'"),
                    HasSubstr("POST /v3/kv/txn")));
}

TEST(EtcdPeers, JsonOfOtherShapes) {
  for (const char* body : {"", "[]", "1", "{", "{\"error\": 3}", "nul", "{\"a\":1}{\"b\":2}"}) {
    EXPECT_THAT(said_of_server(answers(http(body))), HasSubstr(kNoEtcd)) << body;
  }
  EXPECT_THAT(said_of_server(answers(http(std::string(1 << 20, '[')))), HasSubstr(kNoEtcd));
  EXPECT_THAT(said_of_server(answers(http("{}"))), HasSubstr("does not have the form of etcd"));
  for (const char* found :
       {"{}", "[]", "[{}]", "[{\"response_range\":3}]", "[{\"response_range\":{\"kvs\":3}}]",
        "[{\"response_range\":{\"kvs\":[3]}}]", "[{\"response_range\":{\"kvs\":[{\"value\":3}]}}]",
        "[{\"response_range\":{\"kvs\":[{\"value\":\"?\"}]}}]", "[{\"response_range\":{\"kvs\":[{},{}]}}]"}) {
    const std::string body = fmt::format("{{\"responses\":{}}}", found);
    EXPECT_THAT(said_of_server(answers(http(body))), HasSubstr("does not have the form of etcd")) << body;
  }
}

TEST(EtcdPeers, Refusals) {
  EXPECT_THAT(
      said_of_server(answers(http(R"({"error":"etcdserver: user name is empty","code":3})", "400 Bad Request"))),
      AllOf(HasSubstr("io: etcd at 127.0.0.1:"), HasSubstr("etcdserver: user name is empty")));
  EXPECT_THAT(said_of_server(answers(http(R"({"message":"etcdserver: no leader","code":14})", "503 No")), kSoon),
              AllOf(HasSubstr("timeout: "), HasSubstr("etcdserver: no leader")));
}

TEST(EtcdPeers, NoHttp) {
  EXPECT_THAT(said_of_server(answers("SSH-2.0-OpenSSH_9.2\r\n")),
              AllOf(HasSubstr(kNoEtcd), HasSubstr("it does not use HTTP")));
  EXPECT_THAT(said_of_server(answers(std::string(1 << 20, '\0'))), HasSubstr(kNoEtcd));
}

TEST(EtcdPeers, TooMuch) {
  const auto too_long = AllOf(HasSubstr(kNoEtcd), HasSubstr("the body of its answer is longer than 4194304 bytes"));
  EXPECT_THAT(said_of_server(answers("HTTP/1.1 200 OK\r\nContent-Length: 9999999999999\r\n\r\n")), too_long);
  EXPECT_THAT(said_of_server(answers(http(std::string(5 << 20, ' ')))), too_long);
  EXPECT_THAT(said_of_server([](int connection) {
                test::read_some(connection);
                test::write_all(connection, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
                while (test::write_all(connection, "10000\r\n" + std::string(0x10000, ' ') + "\r\n")) {
                }
              }),
              too_long);
  EXPECT_THAT(said_of_server([](int connection) {
                test::read_some(connection);
                test::write_all(connection, "HTTP/1.1 200 OK\r\n");
                while (test::write_all(connection, "X-Header: " + std::string(1000, 'x') + "\r\n")) {
                }
              }),
              AllOf(HasSubstr(kNoEtcd), HasSubstr("the header of its answer is longer than 8192 bytes")));
}

TEST(EtcdPeers, SilenceAndSlowness) {
  EXPECT_THAT(said_of_server(test::stay_silent, kSoon),
              AllOf(HasSubstr("timeout: no server of etcd answered within "), HasSubstr("waiting for the answer")));
  EXPECT_THAT(said_of_server(
                  [](int connection) {
                    for (const char c : http("{}")) {
                      if (!test::write_all(connection, std::string(1, c))) return;
                      std::this_thread::sleep_for(300ms);
                    }
                  },
                  kSoon),
              HasSubstr("timeout: no server of etcd answered"));
  EXPECT_THAT(said_of_server([](int) {}, kSoon), AllOf(HasSubstr("timeout: "), HasSubstr("127.0.0.1:")));
}

// ---- TLS

class EtcdTls : public testing::Test {
 protected:
  void SetUp() override {
    if (const auto why = test::EtcdServer::obstacle()) GTEST_SKIP() << *why;
    ChildOptions child;
    child.arguments = {"sh", "-ec", kMakeCertificates};
    child.working_directory = folder_.path();
    const auto made = run_and_capture(child, 180s);
    ASSERT_TRUE(made.status.ok()) << made.err;
    test::EtcdServer::Options options;
    options.scheme = "https";
    options.arguments = {"--cert-file",        file("server.pem"),  "--key-file",  file("server.key"),
                         "--client-cert-auth", "--trusted-ca-file", file("ca.pem")};
    etcd_.emplace(options);
  }

  std::string file(const std::string& name) const { return (folder_.path() / name).string(); }
  EtcdOptions options(const etcd::TlsFiles& files) const {
    EtcdOptions options = options_for(etcd_->port());
    options.address.tls = files;
    return options;
  }

  // An authority, a server it knows as 127.0.0.1, a client, and an authority that knows neither.
  static constexpr const char* kMakeCertificates = R"(
    authority() { openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj "/CN=$1" -keyout $1.key -out $1.pem; }
    authority ca; authority stranger
    signed() {
      openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj "/CN=$1" -keyout $1.key -out $1.csr
      printf "subjectAltName=$2\nextendedKeyUsage=serverAuth,clientAuth\n" >$1.ext
      openssl x509 -req -in $1.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile $1.ext -out $1.pem
    }
    signed server IP:127.0.0.1; signed client DNS:client)";

  const TemporaryFolder folder_;
  std::optional<test::EtcdServer> etcd_;
};

TEST_F(EtcdTls, BothSidesAreChecked) {
  EXPECT_EQ(said_of(options({file("ca.pem"), file("client.pem"), file("client.key")})), "no error");

  const std::string where = fmt::format("io: no connection to etcd at 127.0.0.1:{}: TLS failed while ", etcd_->port());
  EXPECT_THAT(said_of(options({file("ca.pem"), "", ""})),
              AllOf(HasSubstr(where), HasSubstr("it requires a certificate, and this side sent none")));
  EXPECT_THAT(said_of(options({file("stranger.pem"), file("client.pem"), file("client.key")})),
              AllOf(HasSubstr(where + "opening the TLS session"),
                    HasSubstr("its certificate is not by an authority in ca_cert (")));
  EXPECT_THAT(
      said_of(options({"", file("client.pem"), file("client.key")})),
      AllOf(HasSubstr(where + "opening the TLS session"), HasSubstr("the system's list (there is no ca_cert)")));
  auto by_name = options({file("ca.pem"), file("client.pem"), file("client.key")});
  by_name.address.servers[0].host = "localhost";
  EXPECT_THAT(said_of(by_name), AllOf(HasSubstr("io: no connection to etcd at localhost:"),
                                      HasSubstr("its certificate is for another host name (hostname mismatch)")));
  EXPECT_THAT(said_of(options_for(etcd_->port(), kSoon)),
              AllOf(HasSubstr("it closed the connection"), HasSubstr("--rdzv_conf protocol=https")));
}

TEST_F(EtcdTls, FilesThatCannotBeUsed) {
  EXPECT_THAT(said_of(options({file("none.pem"), "", ""})), AllOf(HasSubstr("ca_cert"), HasSubstr("none.pem")));
  EXPECT_THAT(said_of(options({file("ca.pem"), file("client.pem"), file("server.key")})),
              AllOf(HasSubstr("ssl_cert_key"), HasSubstr("server.key")));
}

TEST_F(EtcdTls, AServerWithoutTls) {
  const test::RawServer server(answers(http("{}")));
  auto wrong = options({file("ca.pem"), "", ""});
  wrong.address.servers[0].port = server.port();
  EXPECT_THAT(said_of(wrong), AllOf(HasSubstr("TLS failed while opening the TLS session"),
                                    HasSubstr("it does not use TLS; check that TLS is on there")));
}

}  // namespace
}  // namespace lockstep::cluster::elastic
