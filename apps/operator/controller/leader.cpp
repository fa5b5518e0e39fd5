// Leader election over a Lease of coordination.k8s.io: acquired, renewed, lost or released.
#include <apps/operator/api/resource.h>
#include <apps/operator/controller/leader.h>
#include <apps/operator/job/json.h>

namespace lockstep::kube {
namespace {

using nlohmann::json;

}  // namespace

LeaseHolder::LeaseHolder(ApiClient& client, LeaseOptions options) : client_(client), options_(std::move(options)) {}

void LeaseHolder::note_failure(const std::string& why) {
  trouble_ = why;
  if (holds_ && Clock::now() - renewed_ > options_.renew_deadline) {
    holds_ = false;
    lost_ = true;
  }
}

bool LeaseHolder::write(json lease, bool creates, bool takes_over) {
  const auto begin = Clock::now();
  const auto now = micro_time_text(std::chrono::system_clock::now());
  json& spec = lease["spec"];
  spec["holderIdentity"] = options_.identity;
  spec["leaseDurationSeconds"] =
      std::max<std::int64_t>(1, std::chrono::ceil<std::chrono::seconds>(options_.duration).count());
  spec["renewTime"] = now;
  if (takes_over) {
    spec["acquireTime"] = now;
    spec["leaseTransitions"] = integer_at(spec, "leaseTransitions").value_or(-1) + 1;
  }
  Answer answer = creates ? client_.create(path_of(leases(), options_.space), lease)
                          : client_.replace(path_of(leases(), options_.space, options_.name), lease);
  if (!answer.ok()) {
    note_failure(answer.text());
    return holds_;
  }
  lease_ = std::move(answer.object);
  renewed_ = begin;
  holds_ = true;
  trouble_.clear();
  return true;
}

bool LeaseHolder::try_once() {
  const Answer answer = client_.get(path_of(leases(), options_.space, options_.name));
  if (answer.outcome == Outcome::missing) {
    const json lease = {{"apiVersion", leases().api_version()},
                        {"kind", leases().kind},
                        {"metadata", {{"name", options_.name}, {"namespace", options_.space}}},
                        {"spec", json::object()}};
    return write(lease, true, true);
  }
  if (!answer.ok()) {
    note_failure(answer.text());
    return holds_;
  }
  const std::string holder = text_at(object_at(answer.object, "spec"), "holderIdentity");
  if (holder == options_.identity) return write(answer.object, false, !holds_);
  if (holds_) {  // another operator took the Lease while this one was stopped
    holds_ = false;
    lost_ = true;
    trouble_ = "'" + holder + "' holds it now";
    return false;
  }
  other_ = holder;
  trouble_.clear();
  if (version_of(answer.object) != seen_version_) {
    seen_version_ = version_of(answer.object);
    seen_ = Clock::now();
  }
  if (!holder.empty() && Clock::now() - seen_ < options_.duration) return false;
  return write(answer.object, false, true);
}

void LeaseHolder::release() {
  if (!holds_) return;
  holds_ = false;
  lease_["spec"]["holderIdentity"] = "";
  lease_["spec"]["renewTime"] = micro_time_text(std::chrono::system_clock::now());
  client_.replace(path_of(leases(), options_.space, options_.name), lease_);
}

}  // namespace lockstep::kube
