// Counters and gauges of the operator, printed in Prometheus' text format.
#include <apps/operator/controller/metrics.h>

#include <fmt/format.h>

namespace lockstep::kube {

void Metrics::count_request(std::string_view method, Outcome outcome) {
  const std::lock_guard lock(mutex_);
  requests_[{std::string(method), std::string(name(outcome))}] += 1;
}

void Metrics::count_watch(std::string_view plural) {
  const std::lock_guard lock(mutex_);
  watches_[std::string(plural)] += 1;
}

std::string Metrics::text(const std::map<std::string, double>& gauges) const {
  const std::lock_guard lock(mutex_);
  std::string text =
      "# HELP lockstep_operator_requests_total Requests to the API server, by method and outcome.\n"
      "# TYPE lockstep_operator_requests_total counter\n";
  for (const auto& [which, count] : requests_) {
    text += fmt::format("lockstep_operator_requests_total{{method=\"{}\",outcome=\"{}\"}} {}\n", which.first,
                        which.second, count);
  }
  text +=
      "# HELP lockstep_operator_watches_total Watches that were begun, by kind.\n"
      "# TYPE lockstep_operator_watches_total counter\n";
  for (const auto& [kind, count] : watches_) {
    text += fmt::format("lockstep_operator_watches_total{{kind=\"{}\"}} {}\n", kind, count);
  }
  text += fmt::format(
      "# HELP lockstep_operator_decisions_total Decisions about jobs.\n"
      "# TYPE lockstep_operator_decisions_total counter\n"
      "lockstep_operator_decisions_total {}\n"
      "# HELP lockstep_operator_failures_total Decisions that could not be carried out, and are tried again.\n"
      "# TYPE lockstep_operator_failures_total counter\n"
      "lockstep_operator_failures_total {}\n"
      "# HELP lockstep_operator_leader Whether this operator is the one that acts.\n"
      "# TYPE lockstep_operator_leader gauge\n"
      "lockstep_operator_leader {}\n",
      decisions.load(), failures.load(), leads.load() ? 1 : 0);
  std::string last;
  for (const auto& [gauge, value] : gauges) {
    const auto base = gauge.substr(0, gauge.find('{'));
    if (base != last) text += fmt::format("# TYPE {} gauge\n", base);
    last = base;
    text += fmt::format("{} {}\n", gauge, value);
  }
  return text;
}

}  // namespace lockstep::kube
