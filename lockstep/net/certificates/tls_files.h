// The JSON file that names a cluster's certificates, in the format of MindSpore's set_ps_context(config_file_path=...).
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::net {

/// Fields as in the file; paths are as written.
struct CertificateFiles {
  std::string server_cert = "server.p12";  ///< certificate and key of the side that listens
  std::string client_cert = "client.p12";  ///< certificate and key of the side that connects
  std::string ca_cert = "ca.crt";          ///< trusted authorities, PEM
  std::string crl;                         ///< revoked certificates, PEM; empty: none
  std::string server_password_file;        ///< empty: the file names none
  std::string client_password_file;
  std::vector<std::string> ciphers;     ///< ciphers of TLS 1.2, OpenSSL's names; empty: all that are supported
  int warning_days = 90;                ///< the warning begins this long before a certificate expires
  int check_interval_hours = 168;       ///< the interval between two checks of the expiry
  int connections = 10000;              ///< the limit for connections of the scheduler
  std::vector<std::string> warnings{};  ///< mistakes in the file that were corrected
};

/// Reads the text of such a file. Error(config) naming `file` and the field that breaks a rule: an unknown field, a
/// wrong type, a number out of range, a cipher that is not supported.
CertificateFiles parse_tls_files(std::string_view text, const std::string& file);

/// The same for a file; relative paths in it are relative to its folder. Error(config) when it cannot be read.
CertificateFiles read_tls_files(const std::filesystem::path& file);

/// The suites that a cipher_list may name.
const std::vector<std::string>& supported_ciphers();

}  // namespace lockstep::net
