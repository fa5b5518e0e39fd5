// One pass over a job: observe from the cache, decide, store the status, then execute the actions in order. Also the
// Kubernetes Events about it, named by a hash of their content (repeated ones are counted in place), and its
// certificates.
#include <apps/operator/controller/reconciler.h>
#include <apps/operator/decide/objects.h>
#include <apps/operator/job/json.h>
#include <apps/operator/job/names.h>
#include <lockstep/base/crypto.h>
#include <lockstep/base/error.h>
#include <lockstep/base/log.h>
#include <lockstep/cluster/etcd/client.h>
#include <lockstep/net/certificates/certificates.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <string>
#include <vector>

namespace lockstep::kube {
namespace {

using nlohmann::json;

constexpr std::size_t kMostRemembered = 5000;
constexpr std::size_t kLongestEventMessage = 1024;  // the API server's limit
constexpr std::size_t kLongestName = 200;

constexpr std::chrono::hours kCertificatesValid(24 * 3650);  // longer than any job

/// The certificates of one job, as a Secret: a new authority's certificate, server.p12, client.p12, their password, and
/// the config.json that names them (docs/scheduler.md). The authority's key is discarded, because it signs nothing
/// else.
json make_certificate_secret(const Job& job, const std::string& name, const std::vector<std::string>& hosts) {
  const std::string password = random_token();
  const auto authority = net::make_authority({.name = "Lockstep job " + job.uid, .valid_until = kCertificatesValid});
  const X509& root = *authority.certificate;
  const auto p12 = [&](const std::vector<std::string>& names) {
    const auto identity =
        net::issue(authority, {.name = "lockstep", .hosts = names, .valid_until = kCertificatesValid});
    return to_base64(net::print_p12(identity, root, password));
  };
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
            {"config.json", to_base64(net::certificate_config())}}}};
}

using Next = Reconciled::Next;

constexpr std::chrono::milliseconds kNameIsFreed(1000);
constexpr std::chrono::milliseconds kStateIsCleared(5000);

std::optional<Part> part_of(const Object& object, const std::string& job_uid, const char* data) {
  if (!object || controller_uid(*object) != job_uid) return std::nullopt;
  return Part{uid_of(*object), data == nullptr ? json() : object_at(*object, data)};
}

}  // namespace

void EventRecorder::record(ApiClient& client, const Job& job, const EventNote& note, Time now) {
  Sha256 hash;
  hash.update(fmt::format("{}\n{}\n{}\n{}", identity_, job.uid, note.reason, note.message));
  const auto name = fmt::format("{}.{}", job.name.substr(0, kLongestName), hash.hex().substr(0, 16));
  const auto time = time_text(std::chrono::floor<std::chrono::seconds>(now));
  if (counts_.size() > kMostRemembered) counts_.clear();
  int& count = counts_[name];
  Answer answer;
  if (++count > 1) {
    answer = client.patch(path_of(events(), job.space, name), {{"count", count}, {"lastTimestamp", time}});
    if (answer.ok()) return;
    count = 1;  // the API server deletes events after an hour
  }
  const json event = {{"apiVersion", "v1"},
                      {"kind", "Event"},
                      {"metadata", {{"name", name}, {"namespace", job.space}}},
                      {"involvedObject",
                       {{"apiVersion", lockstep_jobs().api_version()},
                        {"kind", lockstep_jobs().kind},
                        {"name", job.name},
                        {"namespace", job.space},
                        {"uid", job.uid},
                        {"resourceVersion", job.version}}},
                      {"reason", note.reason},
                      {"message", note.message.substr(0, kLongestEventMessage)},
                      {"type", note.warning ? "Warning" : "Normal"},
                      {"source", {{"component", "lockstep-operator"}}},
                      {"firstTimestamp", time},
                      {"lastTimestamp", time},
                      {"count", 1}};
  answer = client.create(path_of(events(), job.space), event);
  if (!answer.ok() && answer.outcome != Outcome::exists) {
    log_debug("no event for {}: {}", job.key(), answer.text());
  }
}

void Obstacles::set(const std::string& job_uid, Obstacle obstacle) {
  const std::lock_guard lock(mutex_);
  by_uid_[job_uid] = std::move(obstacle);
}

std::optional<Obstacle> Obstacles::find(const std::string& job_uid) const {
  const std::lock_guard lock(mutex_);
  const auto found = by_uid_.find(job_uid);
  return found == by_uid_.end() ? std::nullopt : std::optional(found->second);
}

Reconciled Reconciler::retry(const Answer& answer, const std::string& what) {
  Reconciled result{Next::retry, {}, fmt::format("cannot {}: {}", what, answer.text())};
  if (answer.retry_after) result.after = *answer.retry_after;
  return result;
}

Observed Reconciler::observe(const json& object) const {
  Observed seen;
  seen.job = parse_job(object);
  seen.gang = gang_;
  const Job& job = seen.job;
  for (const Object& pod : cache_.owned(pods(), job.uid)) {
    if (auto view = view_pod(*pod, job.uid)) seen.pods.push_back(std::move(*view));
  }
  const auto find = [&](const Resource& resource, const std::string& name, const char* data) {
    return part_of(cache_.find(resource, job.space + "/" + name), job.uid, data);
  };
  seen.service = find(services(), service_name(job), nullptr);
  seen.config_map = find(config_maps(), config_map_name(job), "data");
  if (job.spec.tls == TlsSource::automatic) seen.secret = find(secrets(), secret_name(job), nullptr);
  if (const Resource* groups = pod_groups_of(gang_)) seen.pod_group = find(*groups, pod_group_name(job), "status");
  seen.obstacle = obstacles_.find(job.uid);
  seen.step = progress_.step(job.uid);
  return seen;
}

/// Reads the job again, because the cache differs from the server.
std::optional<Reconciled> Reconciler::refresh(const Job& job) {
  Answer answer = client_.get(path_of(lockstep_jobs(), job.space, job.name));
  if (answer.outcome == Outcome::missing) {
    cache_.remove(lockstep_jobs(), job.key());
    return Reconciled{};
  }
  if (!answer.ok()) return retry(answer, "read the job");
  if (uid_of(answer.object) == job.uid && version_of(answer.object) == job.version) return std::nullopt;
  cache_.put(lockstep_jobs(), std::move(answer.object));
  return Reconciled{Next::at_once, {}, ""};
}

std::optional<Reconciled> Reconciler::store_status(const Job& job, const Status& status) {
  const json object = {
      {"apiVersion", lockstep_jobs().api_version()},
      {"kind", lockstep_jobs().kind},
      {"metadata", {{"name", job.name}, {"namespace", job.space}, {"uid", job.uid}, {"resourceVersion", job.version}}},
      {"spec", object_at(*cache_.find(lockstep_jobs(), job.key()), "spec")},
      {"status", to_json(status)}};
  Answer answer = client_.replace(path_of(lockstep_jobs(), job.space, job.name, "status"), object);
  if (answer.ok()) {
    cache_.put(lockstep_jobs(), std::move(answer.object));
    return std::nullopt;
  }
  if (answer.outcome == Outcome::conflict || answer.outcome == Outcome::missing) {
    // If the cache and the server return the same job, the server's copy is outdated.
    const auto next = refresh(job);
    return next ? *next : retry(answer, "store the status");
  }
  return retry(answer, "store the status");
}

std::optional<Reconciled> Reconciler::judge_taken(const Job& job, const Resource& resource, const std::string& name) {
  Answer answer = client_.get(path_of(resource, job.space, name));
  if (answer.outcome == Outcome::missing) return Reconciled{Next::retry, {}, name + " has just been deleted"};
  if (!answer.ok()) return retry(answer, fmt::format("read {} {}", resource.kind, name));
  const json& found = answer.object;
  if (controller_uid(found) == job.uid) {  // created by this operator or by an earlier one
    cache_.put(resource, std::move(answer.object));
    return std::nullopt;
  }
  const bool goes = !text_at(object_at(found, "metadata"), "deletionTimestamp").empty();
  if (goes || controller_kind(found) == lockstep_jobs().kind) {  // of an earlier job of this name, and being deleted
    return Reconciled{Next::done, kNameIsFreed, ""};
  }
  const auto owner = controller_kind(found);
  obstacles_.set(
      job.uid, {"NameConflict", fmt::format("{} '{}' is there already and belongs to {}; rename the job, or remove it",
                                            resource.kind, name, owner.empty() ? "no controller" : "a " + owner)});
  return Reconciled{Next::at_once, {}, ""};
}

std::optional<Reconciled> Reconciler::create(const Job& job, const Resource& resource, const json& object) {
  const auto name = name_of(object);
  Answer answer = client_.create(path_of(resource, job.space), object);
  if (answer.ok()) {
    cache_.put(resource, std::move(answer.object));
    return std::nullopt;
  }
  if (answer.outcome == Outcome::exists) return judge_taken(job, resource, name);
  if (answer.outcome == Outcome::invalid && resource == pods()) {
    obstacles_.set(job.uid, {"PodRefused", answer.message});
    return Reconciled{Next::at_once, {}, ""};
  }
  if (answer.outcome == Outcome::forbidden || answer.outcome == Outcome::invalid) {
    recorder_.record(client_, job, {true, "CreateFailed", answer.message}, std::chrono::system_clock::now());
  }
  return retry(answer, fmt::format("create {} {}", resource.kind, name));
}

std::optional<Reconciled> Reconciler::remove(const Job& job, const DeleteObject& what) {
  Answer answer = client_.remove(path_of(*what.resource, job.space, what.name), {.uid = what.uid, .grace_seconds = {}});
  const auto key = job.space + "/" + what.name;
  switch (answer.outcome) {
    case Outcome::done:
      // The server returns a Pod that is still terminating, and a Status for an object that is deleted.
      if (text_at(answer.object, "kind") == what.resource->kind &&
          !text_at(object_at(answer.object, "metadata"), "deletionTimestamp").empty() &&
          object_at(answer.object, "metadata").value("deletionGracePeriodSeconds", 0) > 0) {
        cache_.put(*what.resource, std::move(answer.object));
      }
      return std::nullopt;
    case Outcome::missing:
    case Outcome::conflict:  // another object has the name
      cache_.remove(*what.resource, key, what.uid);
      return std::nullopt;
    default: return retry(answer, fmt::format("delete {} {}", what.resource->kind, what.name));
  }
}

std::optional<Reconciled> Reconciler::set_finalizers(const Job& job, const std::vector<std::string>& finalizers) {
  const Object known = cache_.find(lockstep_jobs(), job.key());
  if (!known || uid_of(*known) != job.uid) return Reconciled{};
  // The whole list is replaced, so it must not be the list of another version.
  Answer answer = client_.patch(path_of(lockstep_jobs(), job.space, job.name),
                                {{"metadata", {{"resourceVersion", version_of(*known)}, {"finalizers", finalizers}}}});
  if (answer.outcome == Outcome::missing) return Reconciled{};
  if (!answer.ok()) return retry(answer, "change the job's finalizers");
  // A deleted job without finalizers no longer exists; the watch reports it.
  if (!job.deleting) cache_.put(lockstep_jobs(), std::move(answer.object));
  return std::nullopt;
}

std::optional<Reconciled> Reconciler::clear_state(const Job& job, const std::string& url) {
  try {
    const auto place = cluster::etcd::parse_url(url, "recovery.path");
    cluster::etcd::Entry(place.address, place.key).remove(kStateIsCleared);
    log_info("{}: {} is deleted", job.key(), url);
    return std::nullopt;
  } catch (const Error& error) {
    const auto text = fmt::format("cannot delete {}: {}", url, error.what());
    recorder_.record(
        client_, job,
        {true, "StateNotCleared", text + "; the job is deleted when that is done, or when recovery.clear is false"},
        std::chrono::system_clock::now());
    return Reconciled{Next::retry, {}, text};
  }
}

std::optional<Reconciled> Reconciler::carry_out(const Job& job, const Action& action) {
  if (const auto* made = std::get_if<CreateObject>(&action)) return create(job, *made->resource, made->object);
  if (const auto* secret = std::get_if<CreateCertificates>(&action)) {
    return create(job, secrets(), make_certificate_secret(job, secret->name, secret->hosts));
  }
  if (const auto* gone = std::get_if<DeleteObject>(&action)) return remove(job, *gone);
  if (const auto* list = std::get_if<SetFinalizers>(&action)) return set_finalizers(job, list->finalizers);
  if (const auto* state = std::get_if<ClearState>(&action)) return clear_state(job, state->url);
  const auto& changed = std::get<ReplaceObject>(action);
  Answer answer = client_.replace(path_of(*changed.resource, job.space, name_of(changed.object)), changed.object);
  if (!answer.ok()) return retry(answer, fmt::format("change {} {}", changed.resource->kind, name_of(changed.object)));
  cache_.put(*changed.resource, std::move(answer.object));
  return std::nullopt;
}

Reconciled Reconciler::reconcile(const std::string& key, Time now) {
  const Object object = cache_.find(lockstep_jobs(), key);
  if (!object) return {};
  const Observed seen = observe(*object);
  const Decision decision = decide(seen, now);
  const auto record = [&] {
    for (const EventNote& note : decision.events) {
      log_info("{}: {}: {}", key, note.reason, note.message);
      recorder_.record(client_, seen.job, note, now);
    }
  };
  if (decision.status) {
    if (auto next = store_status(seen.job, *decision.status)) return *next;
    record();  // later actions may fail, and the next decision has no reason to record these events again
  } else if (!decision.actions.empty()) {
    // A decision on an old copy of the job could undo the actions of a later operator.
    if (auto next = refresh(seen.job)) return *next;
  }
  for (const Action& action : decision.actions) {
    if (auto next = carry_out(seen.job, action)) return *next;
  }
  if (!decision.status) record();
  return {Next::done, decision.again, ""};
}

}  // namespace lockstep::kube
