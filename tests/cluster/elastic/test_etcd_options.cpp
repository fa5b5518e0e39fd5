// What --rdzv_endpoint, --rdzv_id and --rdzv_conf say to the etcd backend.
#include <lockstep/base/error.h>
#include <lockstep/cluster/elastic/etcd_rendezvous.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::cluster::elastic {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

using Conf = std::map<std::string, std::string>;

std::vector<std::string> servers(const std::string& endpoint) {
  std::vector<std::string> texts;
  for (const auto& server : etcd_options(endpoint, "job", {}).address.servers) texts.push_back(server.text());
  return texts;
}

std::string refusal(const std::string& endpoint, const std::string& job, const Conf& conf) {
  try {
    etcd_options(endpoint, job, conf);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::invalid_argument);
    return error.message();
  }
  return "";
}

TEST(EtcdOptions, Endpoints) {
  EXPECT_THAT(servers("etcd1"), ElementsAre("etcd1:2379"));
  EXPECT_THAT(servers("etcd1:23,10.0.0.2,10.0.0.3:4"), ElementsAre("etcd1:23", "10.0.0.2:2379", "10.0.0.3:4"));
  EXPECT_THAT(servers("::1,[::1],[fe80::2]:77"), ElementsAre("[::1]:2379", "[::1]:2379", "[fe80::2]:77"));
  for (const char* bad :
       {",", "a,,b", ":1", "a:", "a:0", "a:65536", "a:x", "http://a:1", "[::1]x:1", "[]:1", "[::1]:"}) {
    EXPECT_THAT(refusal(bad, "job", {}), HasSubstr("must be HOST or HOST:PORT")) << bad;
  }
  EXPECT_THAT(refusal("", "job", {}), HasSubstr("needs --rdzv_endpoint"));
}

TEST(EtcdOptions, JobsHaveNames) {
  EXPECT_EQ(etcd_options("a", "my job", {}).job, "my job");
  for (const char* none : {"", "none"}) EXPECT_THAT(refusal("a", none, {}), HasSubstr("needs --rdzv_id"));
}

TEST(EtcdOptions, Tls) {
  EXPECT_EQ(etcd_options("a", "job", {}).address.tls, std::nullopt);
  EXPECT_EQ(etcd_options("a", "job", {{"protocol", "http"}}).address.tls, std::nullopt);
  const auto all =
      etcd_options("a", "job", {{"protocol", "https"}, {"ssl_cert", "c"}, {"ssl_cert_key", "k"}, {"ca_cert", "a"}});
  EXPECT_EQ(all.address.tls, (etcd::TlsFiles{"a", "c", "k"}));
  EXPECT_EQ(etcd_options("a", "job", {{"protocol", "https"}, {"cacert", "a"}}).address.tls,
            (etcd::TlsFiles{"a", "", ""}));
  EXPECT_THAT(refusal("a", "job", {{"protocol", "ftp"}}), HasSubstr("must be http or https"));
  EXPECT_THAT(refusal("a", "job", {{"protocol", "https"}, {"ssl_cert", "c"}}),
              HasSubstr("belong together; there is only ssl_cert"));
  EXPECT_THAT(refusal("a", "job", {{"ca_cert", "c"}}), HasSubstr("protocol is http"));
}

TEST(EtcdOptions, Lease) {
  EXPECT_EQ(etcd_options("a", "job", {}).lease, std::chrono::minutes(10));
  EXPECT_EQ(etcd_options("a", "job", {{"lease", "60"}}).lease, std::chrono::minutes(1));
  for (const char* bad : {"0", "-1", "1.5", "x", "604801"})
    EXPECT_THAT(refusal("a", "job", {{"lease", bad}}), HasSubstr("lease="));
}

}  // namespace
}  // namespace lockstep::cluster::elastic
