// One key of a real etcd, and how people write which.
#include <lockstep/base/error.h>
#include <lockstep/cluster/etcd/client.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/etcd_server.h"

namespace lockstep::cluster::etcd {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;

constexpr auto kLimit = 60s;

TEST(EtcdEntry, IsReadAsItWasWritten) {
  if (const auto why = test::EtcdServer::obstacle()) GTEST_SKIP() << *why;
  test::EtcdServer server;
  const auto url = parse_url("etcd://127.0.0.1:1," + server.endpoint(0) + "/jobs/seven", "HERE");
  Entry entry(url.address, url.key);
  EXPECT_EQ(entry.read(kLimit), std::nullopt);
  const std::string text = "{\"a\": \"\xc3\xa4\"}\n" + std::string(100'000, 'x');
  entry.write("something else", kLimit);
  entry.write(text, kLimit);
  EXPECT_EQ(Entry(url.address, url.key).read(kLimit), text);
  EXPECT_EQ(Entry(url.address, "/jobs/eight").read(kLimit), std::nullopt);
  server.kill();
  try {
    entry.write("never", 300ms);
    ADD_FAILURE() << "nobody is there";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::timeout);
    EXPECT_THAT(error.message(), AllOf(HasSubstr("no server of etcd answered"), HasSubstr("or correct HERE")));
  }
  server.start();
  server.wait_until_ready();
  EXPECT_EQ(entry.read(kLimit), text);
}

TEST(EtcdEntry, SaysWhatEtcdRefuses) {
  if (const auto why = test::EtcdServer::obstacle()) GTEST_SKIP() << *why;
  const test::EtcdServer server;
  const auto url = parse_url("etcd://" + server.endpoint(0) + "/jobs/large", "HERE");
  Entry entry(url.address, url.key);
  try {
    entry.write(std::string(2'000'000, 'x'), kLimit);
    ADD_FAILURE() << "etcd takes no more than 1.5 MiB";
  } catch (const Error& error) {
    EXPECT_THAT(error.message(), AllOf(HasSubstr("/jobs/large in the etcd at"), HasSubstr("request is too large")));
  }
}

TEST(EtcdUrl, NamesServersKeyAndFiles) {
  EXPECT_TRUE(is_url("etcd://a/b"));
  EXPECT_TRUE(is_url("etcds://a/b"));
  for (const char* path : {"/state", "state", "etcd", "http://a/b"}) EXPECT_FALSE(is_url(path)) << path;
  const auto plain = parse_url("etcd://a,[::1]:77/jobs/one", "HERE");
  ASSERT_EQ(plain.address.servers.size(), 2U);
  EXPECT_EQ(plain.address.servers[0].text(), "a:2379");
  EXPECT_EQ(plain.address.servers[1].text(), "[::1]:77");
  EXPECT_EQ(plain.key, "/jobs/one");
  EXPECT_EQ(plain.address.tls, std::nullopt);
  EXPECT_EQ(parse_url("etcds://a/k", "HERE").address.tls, TlsFiles());
  EXPECT_EQ(parse_url("etcds://a/k?ca_cert=/x/ca.crt&ssl_cert=c&ssl_cert_key=k", "HERE").address.tls,
            (TlsFiles{"/x/ca.crt", "c", "k"}));
}

TEST(EtcdUrl, SaysWhatIsWrong) {
  struct Case {
    const char* text;
    const char* words;
  };
  for (const auto& [text, words] :
       {Case{"etcd://a", "names no key"}, Case{"etcd://a/", "names no key"}, Case{"etcd:///k", "must be HOST"},
        Case{"etcd://a:0/k", "must be HOST"}, Case{"etcd://a,:1/k", "must be HOST"},
        Case{"etcd://a/k?ca_cert=c", "etcds:// only"}, Case{"etcds://a/k?cert=c", "'cert'"},
        Case{"etcds://a/k?ca_cert=", "'ca_cert'"}, Case{"etcds://a/k?ssl_cert=c", "only ssl_cert"}}) {
    try {
      parse_url(text, "HERE");
      ADD_FAILURE() << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::environment);
      EXPECT_THAT(error.message(), AllOf(HasSubstr("HERE"), HasSubstr(words))) << text;
    }
  }
}

}  // namespace
}  // namespace lockstep::cluster::etcd
