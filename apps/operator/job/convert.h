// Jobs of other operators as LockstepJobs.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace lockstep::kube {

struct Converted {
  nlohmann::ordered_json job;
  std::vector<std::string> remarks;  ///< for the user: fields without a counterpart, or with another meaning
};

/// An MSJob (mindspore.gitee.com/v1). Error(config) when it is of another kind.
Converted convert_msjob(const nlohmann::ordered_json& object);
/// A PyTorchJob (kubeflow.org/v1).
Converted convert_pytorchjob(const nlohmann::ordered_json& object);
/// A TrainJob (trainer.kubeflow.org/v1alpha1). The settings of its runtime are not in the object.
Converted convert_trainjob(const nlohmann::ordered_json& object);

}  // namespace lockstep::kube
