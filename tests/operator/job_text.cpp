#include "operator/job_text.h"

#include <apps/operator/job/json.h>

namespace lockstep::test {

kube::Job job_of(std::string spec) {
  const std::string word = "WORKER";
  const std::string pod = "{spec: {containers: [{name: lockstep, image: i}]}}";
  for (std::size_t at; (at = spec.find(word)) != std::string::npos;) spec.replace(at, word.size(), pod);
  nlohmann::json object = {
      {"metadata",
       {{"name", "a"}, {"namespace", "team"}, {"uid", "job-uid"}, {"resourceVersion", "1"}, {"generation", 1}}}};
  object["spec"] = kube::parse_yaml_documents(spec, "spec.yaml").at(0);
  return kube::parse_job(object);
}

}  // namespace lockstep::test
