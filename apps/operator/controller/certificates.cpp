// A job's TLS Secret: a new authority, .p12 files for server and client, password and config.json.
#include <apps/operator/controller/certificates.h>
#include <apps/operator/job/names.h>
#include <lockstep/base/base64.h>
#include <lockstep/base/secret.h>
#include <lockstep/net/certificates/make_certificates.h>

namespace lockstep::kube {
namespace {

constexpr std::chrono::hours kValid(24 * 3650);  // longer than any job

}  // namespace

nlohmann::json make_certificate_secret(const Job& job, const std::string& name, const std::vector<std::string>& hosts) {
  const std::string password = random_token();
  const auto authority = net::make_authority({.name = "Lockstep job " + job.uid, .valid_until = kValid});
  const X509& root = *authority.certificate;
  const auto p12 = [&](const std::vector<std::string>& names) {
    const auto identity = net::issue(authority, {.name = "lockstep", .hosts = names, .valid_until = kValid});
    return to_base64(net::print_p12(identity, root, password));
  };
  const nlohmann::ordered_json config = {{"server_cert_path", "server.p12"},
                                         {"client_cert_path", "client.p12"},
                                         {"ca_cert_path", "ca.crt"},
                                         {"crl_path", ""},
                                         {"server_password_file", "password"},
                                         {"client_password_file", "password"},
                                         {"cert_expire_warning_time_in_day", 90}};
  return {{"apiVersion", "v1"},
          {"kind", "Secret"},
          {"type", "Opaque"},
          {"metadata",
           {{"name", name}, {"namespace", job.space}, {"labels", job_labels(job)}, {"ownerReferences", owned_by(job)}}},
          {"data",
           {{"ca.crt", to_base64(net::print_pem(root))},
            {"server.p12", p12(hosts)},
            {"client.p12", p12({})},
            {"password", to_base64(password + "\n")},
            {"config.json", to_base64(config.dump(2) + "\n")}}}};
}

}  // namespace lockstep::kube
