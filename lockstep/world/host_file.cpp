// A parser of host lists with slots: files of MPI launchers and DeepSpeed, and variables of PBS, LSF, SGE and Slurm.
#include <lockstep/base/error.h>
#include <lockstep/base/files.h>
#include <lockstep/base/text.h>
#include <lockstep/world/detect.h>
#include <lockstep/world/host_file.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <sstream>
#include <system_error>
#include <utility>

namespace lockstep {
namespace {

constexpr std::int64_t kMostSlots = 65536;
constexpr std::string_view kForms = "lines are HOST, HOST slots=N or HOST:N";

/// The place in the list of a host, for messages.
struct HostLine {
  std::string_view source;
  std::size_t line;
};

[[noreturn]] void refuse_entry(const HostLine& entry, std::string_view text, std::string_view rule) {
  const std::string place = entry.line == 0 ? "" : fmt::format(", line {}", entry.line);
  fail(ErrorKind::config, "hosts", "{}{}: '{}' {}; {}", entry.source, place, cut_text(text), rule,
       entry.line == 0 ? "hosts are HOST:N,HOST:N" : kForms);
}

int slots_of(const HostLine& entry, std::string_view text) {
  const auto slots = parse_integer(text);
  if (!slots || *slots < 1 || *slots > kMostSlots) refuse_entry(entry, text, "is no number of slots");
  return static_cast<int>(*slots);
}

/// "a", "a:4", "user@a", "[::1]:4" or "fe80::1".
HostSlots host_of(const HostLine& entry, std::string_view text) {
  if (text.starts_with('^') || text.starts_with('+')) {
    refuse_entry(entry, text, "leaves out or counts hosts in a notation that only Open MPI has");
  }
  HostSlots host;
  auto name = text.substr(text.find('@') + 1);  // without '@' this is the whole text
  std::string_view slots;
  if (name.starts_with('[')) {
    const auto end = name.find(']');
    const auto rest = end == std::string_view::npos ? name : name.substr(end + 1);
    if (end == std::string_view::npos || (!rest.empty() && !rest.starts_with(':'))) {
      refuse_entry(entry, text, "is no host");
    }
    if (!rest.empty()) slots = rest.substr(1);
    host.slots_given = !rest.empty();
    name = name.substr(1, end - 1);
  } else if (const auto colon = name.find(':'); colon != std::string_view::npos && colon == name.rfind(':')) {
    slots = name.substr(colon + 1);
    host.slots_given = true;
    name = name.substr(0, colon);
  }
  if (name.empty() || name.find_first_of("=,/[]") != std::string_view::npos) refuse_entry(entry, text, "is no host");
  host.host = name;
  if (host.slots_given) host.slots = slots_of(entry, slots);
  return host;
}

void add(const HostSlots& one, std::vector<HostSlots>& hosts) {
  const auto found = std::ranges::find(hosts, one.host, &HostSlots::host);
  if (found == hosts.end()) {
    hosts.push_back(one);
    return;
  }
  found->slots += one.slots;
  found->slots_given = found->slots_given || one.slots_given;
}

/// The text without comments, and without blanks around '='. Lines keep their numbers.
std::string without_comments(std::string_view text) {
  std::string plain;
  bool in_comment = false;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const auto rest = text.substr(at);
    if (in_comment) {
      if (rest.starts_with("*/")) {
        in_comment = false;
        ++at;
      } else if (rest.front() == '\n') {
        plain += '\n';
      }
    } else if (rest.starts_with("/*")) {
      in_comment = true;
      ++at;
    } else if (rest.front() == '#' || rest.starts_with("//")) {
      at += std::min(rest.find('\n'), rest.size()) - 1;
    } else {
      plain += rest.front();
    }
  }
  std::string tight;
  for (std::size_t at = 0; at < plain.size(); ++at) {
    const bool blank = plain[at] == ' ' || plain[at] == '\t';
    const auto next = plain.find_first_not_of(" \t", at);
    if (blank && next != std::string::npos && plain[next] == '=') continue;
    if (blank && !tight.empty() && tight.back() == '=') continue;
    tight += plain[at];
  }
  return tight;
}

/// Parses the rest of a host's line.
void read_rest(const HostLine& entry, std::istringstream& words, HostSlots& host) {
  constexpr std::array<std::string_view, 4> kSlots = {"slots", "count", "cpu", "cpus"};
  constexpr std::array<std::string_view, 12> kOthers = {"max_slots", "max-slots", "slots_max", "slots-max",
                                                        "max_count", "max-count", "max_cpu",   "max-cpu",
                                                        "username",  "user",      "port",      "binding"};
  for (std::string word; words >> word;) {
    const auto equals = word.find('=');
    const auto key = word.substr(0, equals);
    if (equals == std::string::npos) {
      if (host.slots_given) return;  // DeepSpeed ignores the rest, and SGE puts queue and processors there
      host.slots = slots_of(entry, word);
    } else if (std::ranges::find(kSlots, key) != kSlots.end()) {
      host.slots = slots_of(entry, std::string_view(word).substr(equals + 1));
    } else if (std::ranges::find(kOthers, key) != kOthers.end()) {
      continue;
    } else {
      refuse_entry(entry, word, "is no setting of a host");
    }
    host.slots_given = true;
  }
}

std::vector<HostSlots> require_hosts(std::vector<HostSlots> hosts, std::string_view source) {
  if (hosts.empty()) fail(ErrorKind::config, "hosts", "{} names no host; {}", source, kForms);
  return hosts;
}

}  // namespace

std::vector<HostSlots> parse_host_file(std::string_view text, std::string_view source) {
  std::vector<HostSlots> hosts;
  std::istringstream lines(without_comments(text));
  std::size_t number = 0;
  for (std::string line; std::getline(lines, line);) {
    const HostLine entry{source, ++number};
    std::istringstream words(line);
    std::string first;
    if (!(words >> first)) continue;
    HostSlots host = host_of(entry, first);
    read_rest(entry, words, host);
    add(host, hosts);
  }
  return require_hosts(std::move(hosts), source);
}

std::vector<HostSlots> parse_host_list(std::string_view text, std::string_view source) {
  std::vector<HostSlots> hosts;
  std::istringstream parts{std::string(text)};
  for (std::string part; std::getline(parts, part, ',');) add(host_of({source, 0}, part), hosts);
  return require_hosts(std::move(hosts), source);
}

namespace {

std::string text_of(std::string_view variable, const std::string& path) {
  if (auto text = read_file(path)) return *std::move(text);
  fail(ErrorKind::environment, "hosts", "{}={} cannot be read: {}", variable, cut_text(path),
       std::generic_category().message(errno));
}

/// "a 4 b 4" or "a a b": a number after a host is its slots.
std::vector<HostSlots> parse_words(const std::string& text, std::string_view source) {
  std::string lines;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    const bool number = parse_integer(word).has_value();
    if (!lines.empty()) lines += number ? ' ' : '\n';
    lines += word;
  }
  return parse_host_file(lines, source);
}

/// The launch node of jsrun and CSM is listed first, with one slot.
void drop_launch_node(std::vector<HostSlots>& hosts) {
  const auto& first = hosts.front();
  const bool is_launch_node =
      first.host.find("batch") != std::string::npos || first.host.find("login") != std::string::npos;
  if (hosts.size() > 1 && first.slots == 1 && is_launch_node) hosts.erase(hosts.begin());
}

std::vector<HostSlots> hosts_of_slurm(const Environment& environment, const std::string& list) {
  const auto names = detail::expand_host_list(list);
  if (!names) {
    fail(ErrorKind::environment, "hosts", "SLURM_JOB_NODELIST='{}' is no list of hosts such as n[1-3,7]",
         cut_text(list));
  }
  const auto tasks = detail::expand_tasks_per_node(find(environment, "SLURM_TASKS_PER_NODE").value_or(""));
  std::vector<HostSlots> hosts;
  for (std::size_t i = 0; i < names->size(); ++i) {
    const bool given = tasks && tasks->size() == names->size();
    hosts.push_back({(*names)[i], given ? (*tasks)[i] : 1, given});
  }
  return hosts;
}

}  // namespace

std::optional<AllocatedHosts> find_allocated_hosts(const Environment& environment) {
  struct Variable {
    std::string_view name;
    std::string_view system;
    bool is_file;
  };
  constexpr std::array<Variable, 6> kVariables = {{{"PBS_NODEFILE", "PBS", true},
                                                   {"LSB_DJOB_HOSTFILE", "LSF", true},
                                                   {"LSB_MCPU_HOSTS", "LSF", false},
                                                   {"LSB_HOSTS", "LSF", false},
                                                   {"PE_HOSTFILE", "SGE", true},
                                                   {"LOADL_HOSTFILE", "LoadLeveler", true}}};
  for (const Variable& variable : kVariables) {
    const auto value = find(environment, variable.name).value_or("");
    if (value.empty()) continue;
    AllocatedHosts allocated{fmt::format("{}={}", variable.name, value), std::string(variable.system), {}};
    allocated.hosts = variable.is_file ? parse_host_file(text_of(variable.name, value), allocated.source)
                                       : parse_words(value, allocated.source);
    if (variable.system == "LSF") drop_launch_node(allocated.hosts);
    return allocated;
  }
  const auto nodes = find(environment, "SLURM_JOB_NODELIST").value_or("");
  if (nodes.empty()) return std::nullopt;
  return AllocatedHosts{"SLURM_JOB_NODELIST=" + nodes, "Slurm", hosts_of_slurm(environment, nodes)};
}

}  // namespace lockstep
