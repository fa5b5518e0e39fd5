// JSON of the doctor's facts about ranks, links and names, and look-ups among the ranks of a job.
#include <lockstep/base/json.h>
#include <lockstep/doctor/facts.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <type_traits>

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

/// Writes fields as JSON, absent ones as null.
struct Writer {
  Json& json;

  template <typename Value>
  void operator()(const char* key, const Value& value) const {
    json[key] = value;
  }
  template <typename Value>
  void operator()(const char* key, const std::optional<Value>& value) const {
    json[key] = value ? Json(*value) : Json(nullptr);
  }
};

/// Reads fields from JSON.
struct Reader {
  const Json& json;

  template <typename Value>
  void operator()(const char* key, Value& value) const {
    json.at(key).get_to(value);
  }
  template <typename Value>
  void operator()(const char* key, std::optional<Value>& value) const {
    const Json& found = json.at(key);
    if (found.is_null()) return;
    if constexpr (std::integral<Value>) {
      value = integer_of<Value>(found);
    } else {
      value = found.get<Value>();
    }
  }
};

template <typename Given, typename Type>
concept Some = std::same_as<std::remove_const_t<Given>, Type>;

// The fields of each type, once for the writer and for the reader.

void each_field(Some<Gpus> auto& gpus, const auto& field) {
  field("driver", gpus.driver);
  field("models", gpus.models);
  field("runtime", gpus.runtime);
  field("devices", gpus.devices);
  field("visible", gpus.visible);
  field("apart", gpus.apart);
  field("nccl_names", gpus.nccl_names);
  field("nccl_address", gpus.nccl_address);
}

void each_field(Some<Facts> auto& facts, const auto& field) {
  field("rank", facts.rank);
  field("local_size", facts.local_size);
  field("host", facts.host);
  field("identity", facts.identity);
  field("network", facts.network);
  field("way_in", facts.way_in);
  field("lockstep", facts.lockstep);
  field("libtorch", facts.libtorch);
  field("address", facts.address);
  field("address_why", facts.address_why);
  field("address_named", facts.address_named);
  field("greeter", facts.probe_server);
  field("problem", facts.problem);
  field("environment", facts.environment);
  field("interfaces", facts.interfaces);
  field("names", facts.names);
  field("proxies", facts.proxies);
  field("no_proxy", facts.no_proxy);
  field("in_container", facts.in_container);
  field("shm_bytes", facts.shm_bytes);
  field("memfd_problem", facts.memfd_problem);
  field("open_files", facts.open_files);
  field("open_files_hard", facts.open_files_hard);
  field("cpus", facts.cpus);
  field("gpus", facts.gpus);
  field("omp_threads", facts.omp_threads);
  field("port", facts.port);
  field("files", facts.files);
  field("named_files", facts.named_files);
}

void each_field(Some<Link> auto& link, const auto& field) {
  field("from", link.from);
  field("to", link.to);
  field("address", link.address);
  field("problem", link.problem);
  field("clock_ahead_s", link.clock_ahead);
  field("clock_uncertainty_s", link.clock_uncertainty);
}

void each_field(Some<NameSeen> auto& seen, const auto& field) {
  field("rank", seen.rank);
  field("name", seen.name);
}

}  // namespace

void to_json(Json& json, const Port& port) { json = {{"number", port.number}, {"problem", port.problem}}; }

void from_json(const Json& json, Port& port) {
  port = Port{integer_of<std::uint16_t>(json.at("number")), json.at("problem").get<std::string>()};
}

void to_json(Json& json, const Gpus& gpus) { each_field(gpus, Writer{json}); }
void from_json(const Json& json, Gpus& gpus) { each_field(gpus, Reader{json}); }
void to_json(Json& json, const Facts& facts) { each_field(facts, Writer{json}); }
void from_json(const Json& json, Facts& facts) { each_field(facts, Reader{json}); }
void to_json(Json& json, const Link& link) { each_field(link, Writer{json}); }
void from_json(const Json& json, Link& link) { each_field(link, Reader{json}); }
void to_json(Json& json, const NameSeen& seen) { each_field(seen, Writer{json}); }
void from_json(const Json& json, NameSeen& seen) { each_field(seen, Reader{json}); }

}  // namespace lockstep::doctor
