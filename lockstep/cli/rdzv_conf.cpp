// The table of --rdzv_conf's keys (torchrun's and ours), with the check of each value.
#include <lockstep/base/error.h>
#include <lockstep/base/nearest.h>
#include <lockstep/base/text.h>
#include <lockstep/cli/node_flags.h>

#include <cmath>
#include <functional>
#include <sstream>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep::cli {
namespace {

using std::chrono::milliseconds;

milliseconds parse_seconds(const std::string& key, const std::string& value) {
  constexpr double kDay = 24 * 3600;
  const auto seconds = parse_number(value);
  if (!seconds || *seconds <= 0 || *seconds > kDay) {
    refuse("--rdzv_conf {}={}: must be a number of seconds above 0, at most {}", key, value, kDay);
  }
  return milliseconds(std::max(1L, std::lround(*seconds * 1000)));
}

// The job service waits for lost ranks for 2 minutes.
milliseconds parse_replace_timeout(const std::string& key, const std::string& value) {
  constexpr double kMost = 110;
  const auto seconds = parse_number(value);
  if (!seconds || *seconds < 0 || *seconds > kMost) {
    refuse("--rdzv_conf {}={}: must be a number of seconds from 0 to {}", key, value, kMost);
  }
  return milliseconds(std::lround(*seconds * 1000));
}

bool parse_yes_or_no(const std::string& key, const std::string& value) {
  if (value == "t" || value == "y") return true;
  if (value == "f" || value == "n") return false;
  const auto yes = parse_bool(value);
  if (!yes) refuse("--rdzv_conf {}={}: must be 1 or 0", key, value);
  return *yes;
}

int parse_attempts(const std::string& key, const std::string& value) {
  constexpr std::int64_t kMost = 1000;
  const auto attempts = parse_integer(value);
  if (!attempts || *attempts < 1 || *attempts > kMost) {
    refuse("--rdzv_conf {}={}: must be a number from 1 to {}", key, value, kMost);
  }
  return static_cast<int>(*attempts);
}

using Setter = std::function<void(RdzvConf&, const std::string& key, const std::string& value)>;

const std::vector<std::pair<std::string, Setter>>& settings() {
  const auto seconds = [](milliseconds RdzvConf::*field) -> Setter {
    return [field](RdzvConf& conf, const std::string& key, const std::string& value) {
      conf.*field = parse_seconds(key, value);
    };
  };
  const Setter of_backend = [](RdzvConf& conf, const std::string& key, const std::string& value) {
    conf.of_backend[key] = value;
  };
  static const std::vector<std::pair<std::string, Setter>> table = {
      {"is_host",
       [](RdzvConf& conf, const auto& key, const auto& value) { conf.is_host = parse_yes_or_no(key, value); }},
      {"allow_insecure",
       [](RdzvConf& conf, const auto& key, const auto& value) { conf.allow_insecure = parse_yes_or_no(key, value); }},
      {"join_timeout", seconds(&RdzvConf::join_timeout)},
      {"timeout", seconds(&RdzvConf::join_timeout)},  // its name in the static backend
      {"last_call_timeout", seconds(&RdzvConf::last_call_timeout)},
      {"replace_timeout", [](RdzvConf& conf, const auto& key,
                             const auto& value) { conf.replace_timeout = parse_replace_timeout(key, value); }},
      {"close_timeout", seconds(&RdzvConf::close_timeout)},
      {"read_timeout",
       [](RdzvConf& conf, const auto& key, const auto& value) { conf.read_timeout = parse_seconds(key, value); }},
      {"keep_alive_interval", seconds(&RdzvConf::keep_alive_interval)},
      {"keep_alive_max_attempt", [](RdzvConf& conf, const auto& key,
                                    const auto& value) { conf.keep_alive_max_attempt = parse_attempts(key, value); }},
      {"store_type",
       [](RdzvConf&, const auto& key, const auto& value) {
         if (value != "tcp") refuse("--rdzv_conf {}={}: there is only tcp", key, value);
       }},
      {"protocol", of_backend},
      {"ssl_cert", of_backend},
      {"ssl_cert_key", of_backend},
      {"ca_cert", of_backend},
      {"cacert", of_backend},
      {"lease", of_backend},
  };
  return table;
}

void apply(const std::string& text, const std::string& setting, RdzvConf& conf) {
  const auto equals = setting.find('=');
  const std::string_view view = setting;
  const std::string key(trimmed(view.substr(0, equals)));
  const std::string value(equals == std::string::npos ? "" : trimmed(view.substr(equals + 1)));
  if (key.empty() || value.empty()) refuse("--rdzv_conf '{}': '{}' is not KEY=VALUE", text, setting);
  std::vector<std::string> names;
  for (const auto& [name, setter] : settings()) {
    if (name == key) return setter(conf, key, value);
    names.push_back(name);
  }
  refuse("--rdzv_conf '{}': there is no setting '{}'{}", text, setting, did_you_mean(key, names));
}

}  // namespace

RdzvConf parse_rdzv_conf(const std::string& text) {
  RdzvConf conf;
  std::istringstream in(text);
  for (std::string setting; std::getline(in, setting, ',');) apply(text, setting, conf);
  return conf;
}

}  // namespace lockstep::cli
