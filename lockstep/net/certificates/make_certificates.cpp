// A certificate authority over OpenSSL (EC P-256, SHA-256), and its folders of .p12 files for each node.
#include <lockstep/base/crypto.h>
#include <lockstep/base/error.h>
#include <lockstep/base/files.h>
#include <lockstep/base/this_host.h>
#include <lockstep/net/certificates/certificates.h>

#include <openssl/bio.h>
#include <openssl/bn.h>
#include <openssl/ec.h>
#include <openssl/pem.h>
#include <openssl/pkcs12.h>
#include <openssl/x509v3.h>

#include <boost/asio/ip/address.hpp>
#include <nlohmann/json.hpp>
#include <set>

namespace lockstep::net {
namespace {

using Bio = std::unique_ptr<BIO, FreeBy<::BIO_free>>;
using Number = std::unique_ptr<BIGNUM, FreeBy<::BN_free>>;
using Extension = std::unique_ptr<X509_EXTENSION, FreeBy<::X509_EXTENSION_free>>;
using Pkcs12 = std::unique_ptr<PKCS12, FreeBy<::PKCS12_free>>;

void check(bool done, const char* what) {
  if (!done) fail(ErrorKind::io, "certificates", "cannot {}: {}", what, openssl_reason());
}

void set_number(X509& certificate) {
  constexpr int kBits = 159;  // 20 bytes, and positive
  const Number number(::BN_new());
  check(number && ::BN_rand(number.get(), kBits, BN_RAND_TOP_ANY, BN_RAND_BOTTOM_ANY) == 1 &&
            ::BN_to_ASN1_INTEGER(number.get(), ::X509_get_serialNumber(&certificate)) != nullptr,
        "number a certificate");
}

void set_times(X509& certificate, const CertificateWish& wish) {
  const auto set = [](ASN1_TIME* time, std::chrono::hours from_now) {
    return ::X509_gmtime_adj(time, static_cast<long>(std::chrono::seconds(from_now).count())) != nullptr;
  };
  check(set(::X509_getm_notBefore(&certificate), wish.valid_from) &&
            set(::X509_getm_notAfter(&certificate), wish.valid_until),
        "date a certificate");
}

void set_name(X509& certificate, const std::string& name) {
  const auto* bytes = reinterpret_cast<const unsigned char*>(name.c_str());
  check(::X509_NAME_add_entry_by_txt(::X509_get_subject_name(&certificate), "CN", MBSTRING_UTF8, bytes, -1, -1, 0) == 1,
        "name a certificate");
}

void extend(X509& certificate, X509& issuer, int which, const std::string& value) {
  X509V3_CTX context{};
  X509V3_set_ctx(&context, &issuer, &certificate, nullptr, nullptr, 0);
  const Extension extension(::X509V3_EXT_conf_nid(nullptr, &context, which, value.c_str()));
  check(extension && ::X509_add_ext(&certificate, extension.get(), -1) == 1, "extend a certificate");
}

// OpenSSL's subjectAltName, "DNS:node1,IP:10.0.0.1". Refuses host names with characters that separate its fields.
std::string alternative_names(const std::vector<std::string>& hosts) {
  std::string text;
  for (const auto& host : hosts) {
    if (host.empty() || host.find_first_of(",;= \t\n") != std::string::npos) {
      fail(ErrorKind::invalid_argument, "certificates", "'{}' is not the name or address of a host", host);
    }
    boost::system::error_code is_name;
    boost::asio::ip::make_address(host, is_name);
    text += fmt::format("{}{}:{}", text.empty() ? "" : ",", is_name ? "DNS" : "IP", host);
  }
  return text;
}

Identity begin(const CertificateWish& wish) {
  Identity made{make_key(), Certificate(::X509_new()), {}};
  X509& certificate = *made.certificate;
  check(::X509_set_version(&certificate, 2) == 1 && ::X509_set_pubkey(&certificate, made.key.get()) == 1,
        "begin a certificate");
  set_number(certificate);
  set_times(certificate, wish);
  set_name(certificate, wish.name);
  return made;
}

void sign(X509& certificate, const Identity& authority) {
  check(::X509_set_issuer_name(&certificate, ::X509_get_subject_name(authority.certificate.get())) == 1 &&
            ::X509_sign(&certificate, authority.key.get(), ::EVP_sha256()) > 0,
        "sign a certificate");
}

std::string text_of(BIO& bio) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(&bio, &data);
  return {data, static_cast<std::size_t>(size)};
}

namespace fs = std::filesystem;

constexpr int kDaysOfAuthority = 3650;

// Writes a file that only its owner may read. Its folder is private, so no other user can read it before that.
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
      fail(ErrorKind::invalid_argument, "certs", "'{}' is not the name or address of a node", node);
    }
    if (!known.insert(node).second) fail(ErrorKind::invalid_argument, "certs", "the node '{}' is given twice", node);
  }
}

// The names of a node. A scheduler on localhost can also be reached by this machine's addresses and host name.
std::vector<std::string> names_of(const std::string& node) {
  if (node != "localhost") return {node};
  std::vector<std::string> names = {"localhost", "127.0.0.1", "::1"};
  if (const auto host = host_name(); host && *host != "localhost") names.push_back(*host);
  return names;
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
  write_file_atomically(folder / "config.json", certificate_config());
}

}  // namespace

PrivateKey make_key() {
  PrivateKey key(EVP_EC_gen("P-256"));
  check(key != nullptr, "make a key");
  return key;
}

Identity make_authority(const CertificateWish& wish) {
  Identity made = begin(wish);
  X509& certificate = *made.certificate;
  extend(certificate, certificate, NID_basic_constraints, "critical,CA:TRUE,pathlen:0");
  extend(certificate, certificate, NID_key_usage, "critical,keyCertSign,cRLSign");
  extend(certificate, certificate, NID_subject_key_identifier, "hash");
  sign(certificate, made);
  return made;
}

Identity issue(const Identity& authority, const CertificateWish& wish) {
  Identity made = begin(wish);
  X509& certificate = *made.certificate;
  X509& issuer = *authority.certificate;
  extend(certificate, issuer, NID_basic_constraints, "critical,CA:FALSE");
  extend(certificate, issuer, NID_key_usage, "critical,digitalSignature");
  extend(certificate, issuer, NID_ext_key_usage, "serverAuth,clientAuth");
  extend(certificate, issuer, NID_authority_key_identifier, "keyid");
  if (!wish.hosts.empty()) extend(certificate, issuer, NID_subject_alt_name, alternative_names(wish.hosts));
  sign(certificate, authority);
  return made;
}

std::string print_pem(const X509& certificate) {
  const Bio bio(::BIO_new(::BIO_s_mem()));
  check(bio && ::PEM_write_bio_X509(bio.get(), &certificate) == 1, "write a certificate");
  return text_of(*bio);
}

std::string print_pem(const EVP_PKEY& key) {
  const Bio bio(::BIO_new(::BIO_s_mem()));
  check(bio && ::PEM_write_bio_PKCS8PrivateKey(bio.get(), &key, nullptr, nullptr, 0, nullptr, nullptr) == 1,
        "write a key");
  return text_of(*bio);
}

std::string print_p12(const Identity& identity, const X509& authority, const std::string& password) {
  using Stack = std::unique_ptr<STACK_OF(X509), void (*)(STACK_OF(X509)*)>;
  const Stack chain(sk_X509_new_null(), [](STACK_OF(X509) * stack) { sk_X509_free(stack); });
  check(chain && sk_X509_push(chain.get(), const_cast<X509*>(&authority)) == 1, "write a .p12 file");
  const Pkcs12 p12(::PKCS12_create(password.c_str(), "lockstep", identity.key.get(), identity.certificate.get(),
                                   chain.get(), 0, 0, 0, 0, 0));
  const Bio bio(::BIO_new(::BIO_s_mem()));
  check(p12 && bio && ::i2d_PKCS12_bio(bio.get(), p12.get()) == 1, "write a .p12 file");
  return text_of(*bio);
}

std::string certificate_config() {
  const nlohmann::ordered_json config = {{"server_cert_path", "server.p12"},
                                         {"client_cert_path", "client.p12"},
                                         {"ca_cert_path", "ca.crt"},
                                         {"crl_path", ""},
                                         {"server_password_file", "password"},
                                         {"client_password_file", "password"},
                                         {"cert_expire_warning_time_in_day", 90}};
  return config.dump(2) + "\n";
}

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

}  // namespace lockstep::net
