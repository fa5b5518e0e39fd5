#include "base/expect_error.h"
#include "net/certificate_maker.h"
#include "support/read_file.h"

#include <lockstep/net/certificates/certificates.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/asio/ssl/context.hpp>
#include <fstream>

namespace lockstep::net {
namespace {

namespace fs = std::filesystem;
using test::Authority;
using test::expect_error;
using test::read_file;

TEST(Certificates, AP12FileReadsBack) {
  const Authority authority;
  const Identity identity = authority.issue("node");
  const std::string bytes = print_p12(identity, *authority.identity().certificate, "123456");
  const Identity read = read_p12(bytes, "123456");
  EXPECT_EQ(::X509_cmp(read.certificate.get(), identity.certificate.get()), 0);
  EXPECT_EQ(::EVP_PKEY_eq(read.key.get(), identity.key.get()), 1);
  EXPECT_EQ(read.chain.size(), 1U);
  EXPECT_EQ(subject_of(*read.certificate), "/CN=node");
  EXPECT_NEAR(static_cast<double>(time_left(*read.certificate)->count()), 24 * 365, 1);

  expect_error(ErrorKind::io, {"the password is wrong"}, [&] { read_p12(bytes, "654321"); });
  expect_error(ErrorKind::io, {"the password is wrong"}, [&] { read_p12(bytes, ""); });
  expect_error(ErrorKind::io, {"it is not a .p12 file"},
               [&] { read_p12(bytes.substr(0, bytes.size() / 2), "123456"); });
  expect_error(ErrorKind::io, {"it is not a .p12 file"}, [] { read_p12("", ""); });
}

TEST(Certificates, ListsAreReadToTheirEnd) {
  const Authority one;
  const Authority two;
  const std::string both =
      print_pem(*one.identity().certificate) + "some words\n" + print_pem(*two.identity().certificate);
  EXPECT_EQ(read_certificates(both).size(), 2U);
  EXPECT_EQ(read_revocation_lists(one.revoke({}) + two.revoke({})).size(), 2U);
  expect_error(ErrorKind::io, {"no certificate in PEM"}, [] { read_certificates("nothing"); });
  expect_error(ErrorKind::io, {"no revocation list"}, [&] { read_revocation_lists(both); });
}

TEST(Certificates, FilesThatCannotBeUsedAreNamed) {
  const TemporaryFolder folder("lockstep-certificates");
  const Authority authority;
  const auto node = write_node(folder, authority.issue("node"), authority);
  const auto with = [&](auto change) {
    auto changed = node;
    change(changed);
    return changed;
  };
  expect_error(ErrorKind::config, {"server_cert_path", "the password is wrong"},
               [&] { with([](auto& n) { n.password = "x"; }).server(); });
  expect_error(ErrorKind::config, {"cannot read client_cert_path '/nowhere.p12'"},
               [&] { with([](auto& n) { n.files.client_cert = "/nowhere.p12"; }).client(); });
  expect_error(ErrorKind::config, {"cannot use ca_cert_path", "no certificate in PEM"},
               [&] { with([](auto& n) { n.files.ca_cert = n.files.server_cert; }).server(); });
  expect_error(ErrorKind::config, {"cannot use crl_path", "no revocation list in PEM"},
               [&] { with([](auto& n) { n.files.crl = n.files.ca_cert; }).server(); });
}

TEST(Certificates, AFolderForEachNode) {
  const TemporaryFolder place("lockstep-certs");
  const fs::path folder = place.path() / "certs";
  init_certificates(folder, {"10.0.0.1", "node2"}, 100);
  for (const auto* node : {"10.0.0.1", "node2"}) {
    SCOPED_TRACE(node);
    const CertificateFiles files = read_tls_files(folder / node / "config.json");
    EXPECT_TRUE(files.warnings.empty());
    std::string password = read_file(files.server_password_file);
    password.pop_back();  // the line's end
    make_context(TlsSide::server, files, password);
    make_context(TlsSide::client, files, password);
    const Identity server = read_p12(read_file(files.server_cert), password);
    const int good = std::string(node) == "node2" ? ::X509_check_host(server.certificate.get(), node, 0, 0, nullptr)
                                                  : ::X509_check_ip_asc(server.certificate.get(), node, 0);
    EXPECT_EQ(good, 1);
    EXPECT_NEAR(static_cast<double>(time_left(*server.certificate)->count()), 24 * 100, 1);
    for (const auto& file : {files.server_cert, files.client_cert, files.server_password_file}) {
      EXPECT_EQ(fs::status(file).permissions(), fs::perms::owner_read | fs::perms::owner_write) << file;
    }
  }
  EXPECT_EQ(fs::status(folder / "ca.key").permissions(), fs::perms::owner_read | fs::perms::owner_write);
  expect_error(ErrorKind::invalid_argument, {"ca.key' is there already", "another folder"},
               [&] { init_certificates(folder, {"node3"}, 30); });
}

TEST(Certificates, NodesNeedProperNames) {
  const TemporaryFolder place("lockstep-certs");
  const auto refuse = [&](const std::vector<std::string>& nodes, const char* words) {
    expect_error(ErrorKind::invalid_argument, {words}, [&] { init_certificates(place.path() / "certs", nodes, 30); });
  };
  refuse({}, "no nodes");
  refuse({"a", "a"}, "'a' is given twice");
  refuse({"../a"}, "'../a' is not the name");
  refuse({"a/b"}, "'a/b' is not the name");
  refuse({"a,IP:1.2.3.4"}, "is not the name or address of a host");
}

}  // namespace
}  // namespace lockstep::net
