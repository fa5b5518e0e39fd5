#include "net/certificate_maker.h"

#include <gtest/gtest.h>
#include <openssl/pem.h>

#include <boost/asio/ssl/context.hpp>
#include <fstream>

namespace lockstep::test {
namespace {

void write(const std::filesystem::path& file, const std::string& bytes) {
  std::ofstream(file, std::ios::binary) << bytes;
}

}  // namespace

Authority::Authority() : identity_(net::make_authority({.name = "authority"})) {}

net::Identity Authority::issue(const std::string& name, std::vector<std::string> hosts,
                               std::chrono::hours valid_until) const {
  return net::issue(
      identity_,
      {.name = name, .hosts = std::move(hosts), .valid_from = std::chrono::hours(-48), .valid_until = valid_until});
}

std::string Authority::revoke(const std::vector<const X509*>& certificates, std::chrono::seconds until) const {
  const net::RevocationList list(::X509_CRL_new());
  using Time = std::unique_ptr<ASN1_TIME, net::FreeBy<::ASN1_TIME_free>>;
  const Time before(::X509_gmtime_adj(nullptr, -3600));
  const Time after(::X509_gmtime_adj(nullptr, until.count()));
  EXPECT_EQ(::X509_CRL_set_version(list.get(), 1), 1);
  ::X509_CRL_set_issuer_name(list.get(), ::X509_get_subject_name(identity_.certificate.get()));
  ::X509_CRL_set1_lastUpdate(list.get(), before.get());
  ::X509_CRL_set1_nextUpdate(list.get(), after.get());
  for (const auto* certificate : certificates) {
    auto* revoked = ::X509_REVOKED_new();
    ::X509_REVOKED_set_serialNumber(revoked, const_cast<ASN1_INTEGER*>(::X509_get0_serialNumber(certificate)));
    ::X509_REVOKED_set_revocationDate(revoked, before.get());
    EXPECT_EQ(::X509_CRL_add0_revoked(list.get(), revoked), 1);
  }
  EXPECT_GT(::X509_CRL_sign(list.get(), identity_.key.get(), ::EVP_sha256()), 0);
  const std::unique_ptr<BIO, net::FreeBy<::BIO_free>> bio(::BIO_new(::BIO_s_mem()));
  EXPECT_EQ(::PEM_write_bio_X509_CRL(bio.get(), list.get()), 1);
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio.get(), &data);
  return {data, static_cast<std::size_t>(size)};
}

std::shared_ptr<boost::asio::ssl::context> NodeFiles::server() const {
  return make_context(net::TlsSide::server, files, password);
}

std::shared_ptr<boost::asio::ssl::context> NodeFiles::client() const {
  return make_context(net::TlsSide::client, files, password);
}

NodeFiles write_node(const TemporaryFolder& folder, const net::Identity& identity, const Authority& trusted,
                     const std::string& revoked) {
  const auto path = [&, name = std::to_string(::X509_subject_name_hash(identity.certificate.get()))](const char* what) {
    return (folder.path() / (name + what)).string();
  };
  NodeFiles node;
  node.password = "123456";
  node.files.server_cert = node.files.client_cert = path(".p12");
  node.files.ca_cert = path(".ca.crt");
  write(node.files.server_cert, print_p12(identity, *trusted.identity().certificate, node.password));
  write(node.files.ca_cert, net::print_pem(*trusted.identity().certificate));
  if (!revoked.empty()) {
    node.files.crl = path(".crl");
    write(node.files.crl, revoked);
  }
  return node;
}

}  // namespace lockstep::test
