// A reader of kubeconfig files; in order: --kubeconfig, KUBECONFIG, a Pod's service account, ~/.kube/config.
#include <apps/operator/api/access.h>
#include <lockstep/base/crypto.h>
#include <lockstep/base/error.h>
#include <lockstep/base/files.h>
#include <lockstep/base/text.h>
#include <lockstep/base/yaml_text.h>
#include <lockstep/net/tls_contexts.h>

#include <fmt/ranges.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace lockstep::kube {
namespace {

namespace fs = std::filesystem;

constexpr const char* kWhere = "kubeconfig";

std::string read_text(const fs::path& path, const char* what) {
  auto text = read_file(path);
  if (!text) fail(ErrorKind::config, kWhere, "cannot read {} '{}': {}", what, path.string(), std::strerror(errno));
  return std::move(*text);
}

/// A file, and the base folder of the relative paths in it.
struct ConfigFile {
  fs::path path;
  ConfigNode root;
};

std::string scalar(const ConfigNode* node, const char* key) {
  const ConfigNode* value = node == nullptr ? nullptr : node->find(key);
  return value != nullptr && value->kind == ConfigNode::Kind::scalar ? value->scalar : "";
}

/// An entry of one of the lists of a kubeconfig, such as `clusters`.
struct Named {
  const ConfigFile* file = nullptr;
  const ConfigNode* value = nullptr;
};

Named find_named(const std::vector<ConfigFile>& files, const char* list, const char* key, const std::string& wanted) {
  for (const ConfigFile& file : files) {
    const ConfigNode* entries = file.root.find(list);
    if (entries == nullptr) continue;
    for (const ConfigNode& entry : entries->items) {
      if (scalar(&entry, "name") == wanted) return {&file, entry.find(key)};
    }
  }
  return {};
}

class KubeconfigReader {
 public:
  explicit KubeconfigReader(std::vector<ConfigFile> files) : files_(std::move(files)) {}

  Access read(std::string context) const;

 private:
  [[noreturn]] static void refuse(const Named& at, const std::string& why) {
    throw Error(ErrorKind::config, kWhere, why, at.value == nullptr ? FilePosition{} : at.value->position);
  }
  static std::string text_of(const Named& at, const char* file_key, const char* data_key);
  static void read_server(const Named& cluster, Access& access);
  static void read_user(const Named& user, Access& access);
  std::string names() const;

  std::vector<ConfigFile> files_;
};

/// A PEM text, from the file itself or from another file.
std::string KubeconfigReader::text_of(const Named& at, const char* file_key, const char* data_key) {
  if (const auto data = scalar(at.value, data_key); !data.empty()) {
    auto text = from_base64(data);
    if (!text) refuse(at, fmt::format("{} is not base64", data_key));
    return std::move(*text);
  }
  const auto path = scalar(at.value, file_key);
  return path.empty() ? "" : read_text(at.file->path.parent_path() / path, file_key);
}

void read_url(const std::string& url, Access& access, bool& secure) {
  const auto bad = [&](const char* rule) {
    fail(ErrorKind::config, kWhere, "server '{}' is not https://HOST[:PORT][/PATH]: {}", url, rule);
  };
  std::string rest = url;
  if (rest.starts_with("https://")) {
    rest.erase(0, 8);
  } else if (rest.starts_with("http://")) {
    secure = false;
    rest.erase(0, 7);
  } else {
    bad("it has another scheme");
  }
  if (const auto slash = rest.find('/'); slash != std::string::npos) {
    access.base_path = rest.substr(slash);
    while (access.base_path.ends_with('/')) access.base_path.pop_back();
    rest.erase(slash);
  }
  access.server.port = secure ? 443 : 80;
  const auto bracket = rest.find(']');
  const auto colon = rest.find(':', bracket == std::string::npos ? 0 : bracket);
  if (colon != std::string::npos) {
    const auto port = parse_integer(rest.substr(colon + 1));
    if (!port || *port < 1 || *port > 65535) bad("the port is no number from 1 to 65535");
    access.server.port = static_cast<std::uint16_t>(*port);
    rest.erase(colon);
  }
  if (rest.starts_with('[') && rest.ends_with(']')) rest = rest.substr(1, rest.size() - 2);
  if (rest.empty()) bad("there is no host");
  access.server.host = rest;
}

void KubeconfigReader::read_server(const Named& cluster, Access& access) {
  const auto url = scalar(cluster.value, "server");
  if (url.empty()) refuse(cluster, "the cluster has no 'server'");
  bool secure = true;
  read_url(url, access, secure);
  access.server.tls_name = scalar(cluster.value, "tls-server-name");
  if (!secure) access.server.tls_name.clear();
  if (!scalar(cluster.value, "proxy-url").empty()) refuse(cluster, "'proxy-url' is not supported; remove it");
}

void KubeconfigReader::read_user(const Named& user, Access& access) {
  if (user.value == nullptr) return;
  if (const ConfigNode* exec = user.value->find("exec"); exec != nullptr && exec->kind != ConfigNode::Kind::null) {
    refuse(
        {user.file, exec},
        fmt::format("this user's credentials come from the program '{}' (exec), which Lockstep does not run; give it a "
                    "'token', a 'tokenFile' or a client certificate, for example those of a service account",
                    scalar(exec, "command")));
  }
  for (const char* key : {"auth-provider", "username"}) {
    if (user.value->find(key) == nullptr) continue;
    refuse(user,
           fmt::format("'{}' is not supported; give the user a 'token', a 'tokenFile' or a client certificate", key));
  }
  access.token = scalar(user.value, "token");
  if (const auto file = scalar(user.value, "tokenFile"); !file.empty()) {
    access.token_file = user.file->path.parent_path() / file;
    access.token.clear();
    read_text(access.token_file, "tokenFile");
  }
}

std::string KubeconfigReader::names() const {
  std::vector<std::string> paths;
  for (const ConfigFile& file : files_) paths.push_back(file.path.string());
  return fmt::format("{}", fmt::join(paths, ":"));
}

Access KubeconfigReader::read(std::string context_name) const {
  for (const ConfigFile& file : files_) {
    if (context_name.empty()) context_name = scalar(&file.root, "current-context");
  }
  if (context_name.empty()) fail(ErrorKind::config, kWhere, "{} has no current-context; name one", names());
  const Named context = find_named(files_, "contexts", "context", context_name);
  if (context.value == nullptr) fail(ErrorKind::config, kWhere, "{} has no context '{}'", names(), context_name);
  const auto cluster_name = scalar(context.value, "cluster");
  const auto user_name = scalar(context.value, "user");
  const Named cluster = find_named(files_, "clusters", "cluster", cluster_name);
  if (cluster.value == nullptr) refuse(context, fmt::format("{} has no cluster '{}'", names(), cluster_name));
  const Named user = find_named(files_, "users", "user", user_name);
  if (user.value == nullptr && !user_name.empty())
    refuse(context, fmt::format("{} has no user '{}'", names(), user_name));

  Access access;
  access.origin = fmt::format("context '{}' of {}", context_name, names());
  if (const auto space = scalar(context.value, "namespace"); !space.empty()) access.space = space;
  read_server(cluster, access);
  read_user(user, access);
  const bool plain = scalar(cluster.value, "server").starts_with("http://");
  if (plain) {
    access.warnings.push_back(
        fmt::format("{} is reached without TLS: the token can be read on the network", access.server.text()));
    return access;
  }
  net::TlsTexts tls;
  tls.authorities = text_of(cluster, "certificate-authority", "certificate-authority-data");
  if (user.value != nullptr) {
    tls.certificate = text_of(user, "client-certificate", "client-certificate-data");
    tls.key = text_of(user, "client-key", "client-key-data");
    if (tls.certificate.empty() != tls.key.empty()) refuse(user, "a client certificate needs its key, and the reverse");
  }
  tls.verify = scalar(cluster.value, "insecure-skip-tls-verify") != "true";
  if (!tls.verify) {
    access.warnings.push_back(fmt::format(
        "insecure-skip-tls-verify: any server that answers as {} gets the token; give certificate-authority instead",
        access.server.text()));
  }
  access.tls = net::make_client_tls_from_texts(tls);
  return access;
}

Access read_files(const std::string& paths, const std::string& context) {
  std::vector<ConfigFile> files;
  for (std::size_t begin = 0; begin <= paths.size();) {
    const auto end = std::min(paths.find(':', begin), paths.size());
    const fs::path path = paths.substr(begin, end - begin);
    begin = end + 1;
    if (path.empty()) continue;
    files.push_back({path, parse_yaml(read_text(path, "kubeconfig"), path.string())});
  }
  return KubeconfigReader(std::move(files)).read(context);
}

}  // namespace

Access access_in_cluster(const Environment& environment, const fs::path& folder) {
  Access access;
  access.server.host = find(environment, "KUBERNETES_SERVICE_HOST").value_or("");
  access.server.port =
      static_cast<std::uint16_t>(find_integer(environment, "KUBERNETES_SERVICE_PORT", 1, 65535).value_or(443));
  access.origin = "the service account in " + folder.string();
  access.token_file = folder / "token";
  read_text(access.token_file, "the service account's token");
  access.space = trimmed(read_text(folder / "namespace", "the service account's namespace"), " \r\n");
  net::TlsTexts tls;
  tls.authorities = read_text(folder / "ca.crt", "the cluster's authority");
  access.tls = net::make_client_tls_from_texts(tls);
  return access;
}

Access find_access(const std::string& kubeconfig, const std::string& context, const Environment& environment) {
  if (!kubeconfig.empty()) return read_files(kubeconfig, context);
  if (const auto paths = find(environment, "KUBECONFIG"); paths && !paths->empty()) return read_files(*paths, context);
  if (find(environment, "KUBERNETES_SERVICE_HOST")) return access_in_cluster(environment, kServiceAccountFolder);
  const auto home = find(environment, "HOME");
  const fs::path usual = fs::path(home.value_or("/")) / ".kube" / "config";
  if (fs::exists(usual)) return read_files(usual.string(), context);
  fail(ErrorKind::config, kWhere,
       "there is no access to a cluster: give --kubeconfig FILE, set KUBECONFIG, or make {}. (In a Pod the service "
       "account is used.)",
       usual.string());
}

}  // namespace lockstep::kube
