// A strict reader of MindSpore's JSON file of certificates; relative paths count from its folder.
#include <lockstep/base/error.h>
#include <lockstep/base/files.h>
#include <lockstep/base/nearest.h>
#include <lockstep/net/certificates/tls_files.h>

#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

namespace lockstep::net {
namespace {

using nlohmann::json;

constexpr std::size_t kLongestFile = std::size_t{1} << 20;

// A reader of the fields of one object, which refuses unknown ones.
class Fields {
 public:
  Fields(const json& object, std::string file) : object_(object), file_(std::move(file)) {}

  template <typename... Args>
  [[noreturn]] void refuse(fmt::format_string<Args...> format, Args&&... args) const {
    throw Error(ErrorKind::config, "cluster", fmt::format(format, std::forward<Args>(args)...), {file_, 0});
  }

  void text(const char* name, std::string& value) {
    const json* found = take(name);
    if (found == nullptr) return;
    if (!found->is_string()) refuse("{} must be a text", name);
    value = found->get<std::string>();
    if (value.find('\0') != std::string::npos) refuse("{} has a NUL character", name);
  }

  void number(const char* name, int& value, int low, int high) {
    const json* found = take(name);
    if (found == nullptr) return;
    const bool fits = found->is_number_integer() && *found >= low && *found <= high;
    if (!fits) refuse("{} must be an integer from {} to {}, not {}", name, low, high, brief(*found));
    value = found->get<int>();
  }

  /// Accepts a field that has no effect.
  void ignore(const char* name) { take(name); }

  void finish() const {
    for (const auto& [name, value] : object_.items()) {
      if (std::find(known_.begin(), known_.end(), name) == known_.end()) {
        refuse("there is no field '{}'{} (fields: {})", name, did_you_mean(name, known_), fmt::join(known_, ", "));
      }
    }
  }

 private:
  const json* take(const char* name) {
    known_.emplace_back(name);
    const auto found = object_.find(name);
    return found == object_.end() ? nullptr : &*found;
  }
  static std::string brief(const json& value) {
    return value.dump(-1, ' ', true, json::error_handler_t::replace).substr(0, 40);
  }

  const json& object_;
  std::string file_;
  std::vector<std::string> known_;
};

std::string without_blanks(const std::string& text) {
  std::string result;
  std::copy_if(text.begin(), text.end(), std::back_inserter(result),
               [](char c) { return c != ' ' && c != '\t' && c != '\n' && c != '\r'; });
  return result;
}

void read_ciphers(const Fields& fields, const std::string& list, CertificateFiles& files) {
  std::istringstream in(list);
  for (std::string entry; std::getline(in, entry, ':');) {
    const std::string name = without_blanks(entry);
    if (name != entry) {
      files.warnings.push_back(fmt::format("cipher_list: '{}' has blanks in it; '{}' is meant", entry, name));
    }
    const auto& known = supported_ciphers();
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      fields.refuse("cipher_list: '{}' is no supported cipher{} (supported: {})", name, did_you_mean(name, known),
                    fmt::join(known, ":"));
    }
    files.ciphers.push_back(name);
  }
}

std::string beside(const std::filesystem::path& folder, const std::string& path) {
  return path.empty() ? path : (folder / path).string();
}

}  // namespace

const std::vector<std::string>& supported_ciphers() {
  static const std::vector<std::string> names = {"ECDHE-RSA-AES128-GCM-SHA256",  "ECDHE-ECDSA-AES128-GCM-SHA256",
                                                 "ECDHE-RSA-AES256-GCM-SHA384",  "ECDHE-ECDSA-AES256-GCM-SHA384",
                                                 "DHE-RSA-AES128-GCM-SHA256",    "DHE-DSS-AES128-GCM-SHA256",
                                                 "DHE-RSA-AES256-GCM-SHA384",    "DHE-DSS-AES256-GCM-SHA384",
                                                 "DHE-PSK-AES128-GCM-SHA256",    "DHE-PSK-AES256-GCM-SHA384",
                                                 "DHE-PSK-CHACHA20-POLY1305",    "ECDHE-RSA-CHACHA20-POLY1305",
                                                 "ECDHE-PSK-CHACHA20-POLY1305",  "DHE-RSA-AES128-CCM",
                                                 "DHE-RSA-AES256-CCM",           "DHE-RSA-CHACHA20-POLY1305",
                                                 "DHE-PSK-AES128-CCM",           "DHE-PSK-AES256-CCM",
                                                 "ECDHE-ECDSA-AES128-CCM",       "ECDHE-ECDSA-AES256-CCM",
                                                 "ECDHE-ECDSA-CHACHA20-POLY1305"};
  return names;
}

CertificateFiles parse_tls_files(std::string_view text, const std::string& file) {
  const json object = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!object.is_object()) throw Error(ErrorKind::config, "cluster", "it must be one JSON object", {file, 0});
  Fields fields(object, file);
  CertificateFiles files;
  std::string ciphers;
  fields.text("server_cert_path", files.server_cert);
  fields.text("client_cert_path", files.client_cert);
  fields.text("ca_cert_path", files.ca_cert);
  fields.text("crl_path", files.crl);
  fields.text("server_password_file", files.server_password_file);
  fields.text("client_password_file", files.client_password_file);
  fields.text("cipher_list", ciphers);
  fields.number("cert_expire_warning_time_in_day", files.warning_days, 7, 180);
  fields.number("cert_check_interval_in_hour", files.check_interval_hours, 1, 24 * 365);
  fields.number("connection_num", files.connections, 1, 1 << 20);
  fields.ignore("recovery");  // MS_RECOVERY_PATH names the place of the state
  fields.ignore("node_id");
  fields.finish();
  read_ciphers(fields, ciphers, files);
  return files;
}

CertificateFiles read_tls_files(const std::filesystem::path& file) {
  const auto text = read_file(file);
  if (!text || text->size() > kLongestFile) {
    fail(ErrorKind::config, "cluster", "cannot read config_file_path '{}'", file.string());
  }
  CertificateFiles files = parse_tls_files(*text, file.string());
  const auto folder = file.parent_path();
  for (auto* path : {&files.server_cert, &files.client_cert, &files.ca_cert, &files.crl, &files.server_password_file,
                     &files.client_password_file}) {
    *path = beside(folder, *path);
  }
  return files;
}

}  // namespace lockstep::net
