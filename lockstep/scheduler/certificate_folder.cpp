#include <lockstep/base/atomic_file.h>
#include <lockstep/base/error.h>
#include <lockstep/base/secret.h>
#include <lockstep/base/this_host.h>
#include <lockstep/scheduler/certificate_folder.h>
#include <lockstep/scheduler/make_certificates.h>

#include <nlohmann/json.hpp>
#include <set>

namespace lockstep::scheduler {
namespace {

namespace fs = std::filesystem;

constexpr int kDaysOfAuthority = 3650;

// In a folder that is its owner's alone, from the first byte.
void write_secret(const fs::path& file, const std::string& text) {
  write_file_atomically(file, text);
  fs::permissions(file, fs::perms::owner_read | fs::perms::owner_write);
}

void make_private_folder(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (!error) fs::permissions(folder, fs::perms::owner_all, error);
  if (error) fail(ErrorKind::io, "certs", "cannot make the folder '{}': {}", folder.string(), error.message());
}

void check_nodes(const std::vector<std::string>& nodes) {
  if (nodes.empty()) fail(ErrorKind::invalid_argument, "certs", "there are no nodes to make certificates for");
  std::set<std::string> known;
  for (const auto& node : nodes) {
    if (node.empty() || node.front() == '.' || node.find('/') != std::string::npos) {
      fail(ErrorKind::invalid_argument, "certs", "'{}' is no name or address of a node", node);
    }
    if (!known.insert(node).second) fail(ErrorKind::invalid_argument, "certs", "the node '{}' is given twice", node);
  }
}

// Where the scheduler is on this machine, or reached through it, it is called so too.
std::vector<std::string> names_of(const std::string& node) {
  if (node != "localhost") return {node};
  std::vector<std::string> names = {"localhost", "127.0.0.1", "::1"};
  if (const auto host = host_name(); host && *host != "localhost") names.push_back(*host);
  return names;
}

std::string config_text() {
  const nlohmann::ordered_json config = {{"server_cert_path", "server.p12"},
                                         {"client_cert_path", "client.p12"},
                                         {"ca_cert_path", "ca.crt"},
                                         {"crl_path", ""},
                                         {"server_password_file", "password"},
                                         {"client_password_file", "password"},
                                         {"cert_expire_warning_time_in_day", 90}};
  return config.dump(2) + "\n";
}

void write_node(const fs::path& folder, const std::string& node, const Identity& authority, std::chrono::hours valid) {
  make_private_folder(folder);
  const std::string password = random_token();
  const X509& root = *authority.certificate;
  for (const auto* side : {"server", "client"}) {
    const auto identity = issue(authority, {.name = node, .hosts = names_of(node), .valid_until = valid});
    write_secret(folder / (std::string(side) + ".p12"), print_p12(identity, root, password));
  }
  write_secret(folder / "password", password + "\n");
  write_file_atomically(folder / "ca.crt", print_pem(root));
  write_file_atomically(folder / "config.json", config_text());
}

}  // namespace

void init_certificates(const fs::path& folder, const std::vector<std::string>& nodes, int days) {
  check_nodes(nodes);
  for (const auto* file : {"ca.key", "ca.crt"}) {
    if (!fs::exists(folder / file)) continue;
    fail(ErrorKind::invalid_argument, "certs",
         "'{}' is there already, and certificates of a new authority would not suit those of the old one; name "
         "another folder, or remove this one",
         (folder / file).string());
  }
  make_private_folder(folder);
  const auto authority = make_authority({.name = "Lockstep authority " + random_token().substr(0, 8),
                                         .valid_until = std::chrono::hours(24 * kDaysOfAuthority)});
  for (const auto& node : nodes) write_node(folder / node, node, authority, std::chrono::hours(24 * days));
  write_file_atomically(folder / "ca.crt", print_pem(*authority.certificate));
  write_secret(folder / "ca.key", print_pem(*authority.key));
}

}  // namespace lockstep::scheduler
