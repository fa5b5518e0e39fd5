// JSON of the doctor's facts about ranks, links and names, and look-ups among the ranks of a job.
#include <lockstep/base/json.h>
#include <lockstep/doctor/facts.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace lockstep::doctor {

const Facts* find_rank(const JobFacts& job, int rank) {
  const auto found =
      std::find_if(job.ranks.begin(), job.ranks.end(), [&](const Facts& facts) { return facts.rank == rank; });
  return found == job.ranks.end() ? nullptr : &*found;
}

std::vector<const Facts*> hosts_of(const JobFacts& job) {
  std::vector<const Facts*> hosts;
  for (const Facts& facts : job.ranks) {
    const bool known =
        std::any_of(hosts.begin(), hosts.end(), [&](const Facts* host) { return host->identity == facts.identity; });
    if (!known) hosts.push_back(&facts);
  }
  return hosts;
}

std::string place(const JobFacts& job, const Facts& facts) {
  return job.size == 1 ? fmt::format("host {}", facts.host) : fmt::format("host {} (rank {})", facts.host, facts.rank);
}

std::string describe(const Gpus& gpus) {
  std::map<std::string, int> count;
  for (const auto& model : gpus.models) ++count[model];
  std::vector<std::string> words;
  for (const auto& [model, number] : count) words.push_back(fmt::format("{} {}", number, model));
  return fmt::format("{}", fmt::join(words, " and "));
}

using Json = nlohmann::json;

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Interface, name, address, loopback)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Name, name, addresses, milliseconds, answered)

namespace {

Json optional_port(const std::optional<Port>& port) {
  return port ? Json{{"number", port->number}, {"problem", port->problem}} : Json(nullptr);
}

Json gpus_json(const Gpus& gpus) {
  return {{"driver", gpus.driver},
          {"models", gpus.models},
          {"runtime", gpus.runtime},
          {"devices", gpus.devices ? Json(*gpus.devices) : Json(nullptr)},
          {"visible", gpus.visible ? Json(*gpus.visible) : Json(nullptr)},
          {"apart", gpus.apart},
          {"nccl_names", gpus.nccl_names},
          {"nccl_address", gpus.nccl_address}};
}

Gpus gpus_of(const Json& json) {
  Gpus gpus;
  json.at("driver").get_to(gpus.driver);
  json.at("models").get_to(gpus.models);
  json.at("runtime").get_to(gpus.runtime);
  if (!json.at("devices").is_null()) gpus.devices = integer_of<std::int64_t>(json.at("devices"));
  if (!json.at("visible").is_null()) gpus.visible = json.at("visible").get<std::string>();
  json.at("apart").get_to(gpus.apart);
  json.at("nccl_names").get_to(gpus.nccl_names);
  json.at("nccl_address").get_to(gpus.nccl_address);
  return gpus;
}

Json optional_number(const std::optional<std::int64_t>& number) { return number ? Json(*number) : Json(nullptr); }

}  // namespace

void to_json(Json& json, const Facts& facts) {
  json = {{"rank", facts.rank},
          {"local_size", facts.local_size},
          {"host", facts.host},
          {"identity", facts.identity},
          {"network", facts.network},
          {"way_in", facts.way_in},
          {"lockstep", facts.lockstep},
          {"libtorch", facts.libtorch},
          {"address", facts.address},
          {"address_why", facts.address_why},
          {"address_named", facts.address_named},
          {"greeter", facts.probe_server},
          {"problem", facts.problem},
          {"environment", facts.environment},
          {"interfaces", facts.interfaces},
          {"names", facts.names},
          {"proxies", facts.proxies},
          {"no_proxy", facts.no_proxy},
          {"in_container", facts.in_container},
          {"shm_bytes", facts.shm_bytes},
          {"memfd_problem", facts.memfd_problem},
          {"open_files", facts.open_files},
          {"open_files_hard", facts.open_files_hard},
          {"cpus", facts.cpus},
          {"gpus", gpus_json(facts.gpus)},
          {"omp_threads", optional_number(facts.omp_threads)},
          {"port", optional_port(facts.port)},
          {"files", facts.files},
          {"named_files", facts.named_files}};
}

void from_json(const Json& json, Facts& facts) {
  json.at("rank").get_to(facts.rank);
  json.at("local_size").get_to(facts.local_size);
  json.at("host").get_to(facts.host);
  json.at("identity").get_to(facts.identity);
  json.at("network").get_to(facts.network);
  json.at("way_in").get_to(facts.way_in);
  json.at("lockstep").get_to(facts.lockstep);
  json.at("libtorch").get_to(facts.libtorch);
  json.at("address").get_to(facts.address);
  json.at("address_why").get_to(facts.address_why);
  json.at("address_named").get_to(facts.address_named);
  json.at("greeter").get_to(facts.probe_server);
  json.at("problem").get_to(facts.problem);
  json.at("environment").get_to(facts.environment);
  json.at("interfaces").get_to(facts.interfaces);
  json.at("names").get_to(facts.names);
  json.at("proxies").get_to(facts.proxies);
  json.at("no_proxy").get_to(facts.no_proxy);
  json.at("in_container").get_to(facts.in_container);
  json.at("shm_bytes").get_to(facts.shm_bytes);
  json.at("memfd_problem").get_to(facts.memfd_problem);
  json.at("open_files").get_to(facts.open_files);
  json.at("open_files_hard").get_to(facts.open_files_hard);
  json.at("cpus").get_to(facts.cpus);
  facts.gpus = gpus_of(json.at("gpus"));
  if (!json.at("omp_threads").is_null()) facts.omp_threads = integer_of<std::int64_t>(json.at("omp_threads"));
  if (const auto& port = json.at("port"); !port.is_null()) {
    facts.port = Port{integer_of<std::uint16_t>(port.at("number")), port.at("problem").get<std::string>()};
  }
  json.at("files").get_to(facts.files);
  json.at("named_files").get_to(facts.named_files);
}

void to_json(Json& json, const Link& link) {
  json = {{"from", link.from},
          {"to", link.to},
          {"address", link.address},
          {"problem", link.problem},
          {"clock_ahead_s", link.clock_ahead},
          {"clock_uncertainty_s", link.clock_uncertainty}};
}

void from_json(const Json& json, Link& link) {
  json.at("from").get_to(link.from);
  json.at("to").get_to(link.to);
  json.at("address").get_to(link.address);
  json.at("problem").get_to(link.problem);
  json.at("clock_ahead_s").get_to(link.clock_ahead);
  json.at("clock_uncertainty_s").get_to(link.clock_uncertainty);
}

void to_json(Json& json, const NameSeen& seen) { json = {{"rank", seen.rank}, {"name", seen.name}}; }

void from_json(const Json& json, NameSeen& seen) {
  json.at("rank").get_to(seen.rank);
  json.at("name").get_to(seen.name);
}

}  // namespace lockstep::doctor
