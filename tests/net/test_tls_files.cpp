#include "base/expect_error.h"

#include <lockstep/base/temporary_folder.h>
#include <lockstep/net/certificates/tls_files.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

namespace lockstep::net {
namespace {

using test::expect_error;
using testing::ElementsAre;
using testing::HasSubstr;

// As MindSpore's tutorial prints it, the blank included.
constexpr const char* kTutorial = R"({
  "server_cert_path": "server.p12",
  "crl_path": "",
  "client_cert_path": "client.p12",
  "ca_cert_path": "ca.crt",
  "cipher_list": "ECDHE-R SA-AES128-GCM-SHA256:ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-AES256-GCM-SHA384:ECDHE-ECDSA-AES256-GCM-SHA384:DHE-RSA-AES128-GCM-SHA256:DHE-DSS-AES128-GCM-SHA256:DHE-RSA-AES256-GCM-SHA384:DHE-DSS-AES256-GCM-SHA384:DHE-PSK-AES128-GCM-SHA256:DHE-PSK-AES256-GCM-SHA384:DHE-PSK-CHACHA20-POLY1305:ECDHE-RSA-CHACHA20-POLY1305:ECDHE-PSK-CHACHA20-POLY1305:DHE-RSA-AES128-CCM:DHE-RSA-AES256-CCM:DHE-RSA-CHACHA20-POLY1305:DHE-PSK-AES128-CCM:DHE-PSK-AES256-CCM:ECDHE-ECDSA-AES128-CCM:ECDHE-ECDSA-AES256-CCM:ECDHE-ECDSA-CHACHA20-POLY1305",
  "cert_expire_warning_time_in_day": 90
})";

TEST(CertificateFiles, TheTutorialsFileIsRead) {
  const CertificateFiles files = parse_tls_files(kTutorial, "config.json");
  EXPECT_EQ(files.ciphers, supported_ciphers());
  EXPECT_THAT(files.warnings, ElementsAre(HasSubstr("'ECDHE-R SA-AES128-GCM-SHA256' has blanks in it; "
                                                    "'ECDHE-RSA-AES128-GCM-SHA256' is meant")));
  EXPECT_EQ(files.warning_days, 90);
  EXPECT_EQ(files.crl, "");
}

TEST(CertificateFiles, EveryFieldMayBeLeftOut) {
  const CertificateFiles files = parse_tls_files("{}", "config.json");
  EXPECT_EQ(files.server_cert, "server.p12");
  EXPECT_EQ(files.client_cert, "client.p12");
  EXPECT_EQ(files.ca_cert, "ca.crt");
  EXPECT_TRUE(files.ciphers.empty());
  EXPECT_EQ(files.connections, 10000);
}

TEST(CertificateFiles, TheOtherFieldsOfMindSporeAreKnown) {
  const CertificateFiles files = parse_tls_files(
      R"({"recovery": {"storage_type": 1}, "node_id": "x", "connection_num": 5, "cert_check_interval_in_hour": 24})",
      "config.json");
  EXPECT_EQ(files.connections, 5);
  EXPECT_EQ(files.check_interval_hours, 24);
}

TEST(CertificateFiles, WhatBreaksARuleIsSaid) {
  const std::vector<std::pair<const char*, const char*>> cases = {
      {"", "must be one JSON object (config.json)"},
      {"[]", "must be one JSON object"},
      {"{\"ca_cert_path\": \"x\"", "must be one JSON object"},
      {R"({"ca_cert_pat": "x"})", "there is no field 'ca_cert_pat'; did you mean 'ca_cert_path'?"},
      {R"({"ca_cert_path": 5})", "ca_cert_path must be a text"},
      {R"({"ca_cert_path": "a\u0000b"})", "ca_cert_path has a NUL character"},
      {R"({"cert_expire_warning_time_in_day": 6})", "must be an integer from 7 to 180, not 6"},
      {R"({"cert_expire_warning_time_in_day": 181})", "from 7 to 180, not 181"},
      {R"({"cert_expire_warning_time_in_day": "90"})", "from 7 to 180, not \"90\""},
      {R"({"connection_num": 1e3})", "must be an integer from 1"},
      {R"({"cipher_list": "ECDHE-RSA-AES128-SHA"})", "'ECDHE-RSA-AES128-SHA' is no supported cipher"},
      {R"({"cipher_list": "ECDHE-RSA-AES128-GCM-SHA256::x"})", "'' is no supported cipher"},
  };
  for (const auto& [text, words] : cases) {
    SCOPED_TRACE(text);
    expect_error(ErrorKind::config, {words}, [t = text] { parse_tls_files(t, "config.json"); });
  }
}

TEST(CertificateFiles, PathsCountFromTheFilesFolder) {
  const TemporaryFolder folder("lockstep-tls-files");
  std::ofstream(folder.path() / "config.json")
      << R"({"ca_cert_path": "/etc/ca.crt", "server_password_file": "password"})";
  const CertificateFiles files = read_tls_files(folder.path() / "config.json");
  EXPECT_EQ(files.server_cert, folder.path() / "server.p12");
  EXPECT_EQ(files.server_password_file, folder.path() / "password");
  EXPECT_EQ(files.ca_cert, "/etc/ca.crt");
  EXPECT_EQ(files.crl, "");
  expect_error(ErrorKind::config, {"config_file_path", "nowhere.json"},
               [&] { read_tls_files(folder.path() / "nowhere.json"); });
}

}  // namespace
}  // namespace lockstep::net
