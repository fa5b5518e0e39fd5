// The list of all checks, and functions about interfaces that several of them use; and the doctor's findings as wrapped
// text (the first six in full), as log lines and as JSON.
#include <lockstep/doctor/checks.h>
#include <lockstep/doctor/facts.h>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cctype>
#include <iterator>
#include <sstream>

namespace lockstep::doctor {

std::string_view name(Severity severity) {
  switch (severity) {
    case Severity::note: return "note";
    case Severity::warning: return "warning";
    case Severity::error: break;
  }
  return "error";
}

std::size_t count(std::span<const Finding> findings, Severity severity) {
  return static_cast<std::size_t>(
      std::count_if(findings.begin(), findings.end(), [&](const Finding& one) { return one.severity == severity; }));
}

std::vector<Finding> examine(const JobFacts& job) {
  using Check = std::vector<Finding> (*)(const JobFacts&);
  constexpr std::array<Check, 16> kChecks = {check_rendezvous,    check_environment, check_presence,   check_links,
                                             check_addresses,     check_interfaces,  check_containers, check_names,
                                             check_port,          check_versions,    check_clocks,     check_proxies,
                                             check_shared_memory, check_open_files,  check_cpus,       check_gpus};
  std::vector<Finding> findings;
  for (const Check check : kChecks) std::ranges::move(check(job), std::back_inserter(findings));
  std::ranges::stable_sort(findings, [](const Finding& a, const Finding& b) { return a.severity > b.severity; });
  return findings;
}

bool is_virtual_interface(std::string_view name) {
  // Docker and podman, libvirt, VirtualBox and VMware, LXC, the networks of Kubernetes.
  constexpr std::array<std::string_view, 18> kPrefixes = {
      "docker", "br-",  "veth", "virbr",   "vnet", "vboxnet",      "vmnet",  "lxcbr", "lxdbr",
      "cni",    "cali", "cbr",  "flannel", "kube", "nodelocaldns", "podman", "weave", "cilium"};
  return std::ranges::any_of(kPrefixes, [&](std::string_view prefix) { return name.starts_with(prefix); });
}

bool is_in_network_of_its_own(const Facts& facts) {
  constexpr std::string_view kDockersOwn = "172.17.";  // the address range of Docker's default network
  const Interface* const chosen = interface_of(facts, facts.address);
  // docker0 and similar interfaces are the host's end: then this is not a container, but the wrong interface was
  // chosen.
  const bool is_bridge = chosen != nullptr && is_virtual_interface(chosen->name);
  return facts.in_container && facts.address.starts_with(kDockersOwn) && !is_bridge;
}

const Interface* interface_of(const Facts& facts, std::string_view address) {
  const auto found =
      std::ranges::find_if(facts.interfaces, [&](const Interface& one) { return one.address == address; });
  return found == facts.interfaces.end() ? nullptr : &*found;
}

std::string candidates(const Facts& facts) {
  std::vector<std::string> names;
  for (const Interface& one : facts.interfaces) {
    if (!one.loopback && !is_virtual_interface(one.name))
      names.push_back(fmt::format("{} ({})", one.name, one.address));
  }
  return names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "));
}

// Found by nlohmann::json through argument-dependent lookup.
void to_json(nlohmann::json& json, const Finding& finding) {
  json = {{"severity", name(finding.severity)},
          {"check", finding.check},
          {"where", finding.where},
          {"what", finding.what},
          {"fix", finding.fix}};
}

namespace {

constexpr std::size_t kColumns = 100;
constexpr std::size_t kFullFindings = 6;
constexpr std::size_t kHosts = 8;

std::string wrapped(const std::string& first_margin, const std::string& text) {
  const std::string margin(first_margin.size(), ' ');
  std::string out;
  std::string line = first_margin;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    const bool is_empty = line.size() <= margin.size();
    if (!is_empty && line.size() + 1 + word.size() > kColumns) {
      out += line + "\n";
      line = margin + word;
    } else {
      line += (is_empty ? "" : " ") + word;
    }
  }
  return out + line + "\n";
}

std::string upper(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(), [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return out;
}

std::string words_of_host(const JobFacts& job, const Facts& host) {
  const Interface* const interface = interface_of(host, host.address);
  return fmt::format("  {}: {}{}, {} CPU{}, {} open files, /dev/shm {} MiB{}{}\n", place(job, host),
                     host.address.empty() ? "no address" : host.address,
                     interface == nullptr ? "" : fmt::format(" ({})", interface->name), host.cpus,
                     host.cpus == 1 ? "" : "s", host.open_files, host.shm_bytes >> 20,
                     host.gpus.models.empty() ? "" : ", " + describe(host.gpus),
                     host.in_container ? ", container" : "");
}

std::string head(const JobFacts& job) {
  const auto hosts = hosts_of(job);
  std::string text = wrapped("lockstep doctor: ", job.ranks.front().way_in);
  for (std::size_t i = 0; i < std::min(hosts.size(), kHosts); ++i) text += words_of_host(job, *hosts[i]);
  if (hosts.size() > kHosts) text += fmt::format("  and {} more hosts\n", hosts.size() - kHosts);
  return text;
}

std::string words_of(const Finding& finding) {
  return fmt::format("\n{}  {}  {}\n", upper(name(finding.severity)), finding.check, finding.where) +
         wrapped("  ", finding.what) + wrapped("  fix: ", finding.fix);
}

std::string plural(std::size_t number, std::string_view what) {
  return fmt::format("{} {}{}", number, what, number == 1 ? "" : "s");
}

std::string verdict(const Examination& done) {
  const auto errors = count(done.findings, Severity::error);
  const auto warnings = count(done.findings, Severity::warning);
  const auto pairs = std::ranges::count_if(done.job.links, [](const Link& link) { return link.problem.empty(); });
  const auto seen =
      fmt::format("{}, {}", plural(done.job.ranks.size(), "rank"), plural(hosts_of(done.job).size(), "host"));
  if (errors > 0) {
    return fmt::format("\n{}, {}: fix this before a job is started.\n", plural(errors, "error"),
                       plural(warnings, "warning"));
  }
  return fmt::format("\nfine: {}{}{}.\n", seen, pairs > 0 ? fmt::format(", {} connected", plural(pairs, "way")) : "",
                     warnings > 0 ? fmt::format("; {}", plural(warnings, "warning")) : "");
}

}  // namespace

std::string print(const Examination& examination) {
  std::string text = head(examination.job);
  const auto& findings = examination.findings;
  const auto shown = std::min(findings.size(), kFullFindings);
  for (std::size_t i = 0; i < shown; ++i) text += words_of(findings[i]);
  if (findings.size() > shown) text += fmt::format("\nand {} more; --json shows all\n", findings.size() - shown);
  return text + verdict(examination);
}

std::string print_findings(const Examination& examination) {
  std::string text;
  std::size_t shown = 0;
  for (const Finding& finding : examination.findings) {
    if (finding.severity != Severity::note && shown++ < kFullFindings) text += words_of(finding);
  }
  if (shown > kFullFindings) text += fmt::format("\nand {} more\n", shown - kFullFindings);
  if (shown == 0) {
    text = fmt::format("\nnothing is wrong with {} and the connections between hosts; {} of {} ranks were examined\n",
                       plural(hosts_of(examination.job).size(), "host"), examination.job.ranks.size(),
                       examination.job.size);
  }
  text.pop_back();
  return text.substr(1);
}

std::string print_json(const Examination& examination) {
  const JobFacts& job = examination.job;
  const nlohmann::json json = {
      {"sound", examination.sound}, {"size", job.size},   {"master", job.master}, {"findings", examination.findings},
      {"missing", job.missing},     {"links", job.links}, {"names", job.names},   {"ranks", job.ranks}};
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace lockstep::doctor
