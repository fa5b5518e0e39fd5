// What the kubelet makes of a Pod: its container's command, variables and volumes, as a sandbox.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "operator/kubelet/sandbox.h"

namespace lockstep::test {

/// The data of a Secret or ConfigMap by its plural ("secrets", "configmaps") and name, as bytes; nullopt: there is
/// none.
using ReadData = std::function<std::optional<std::map<std::string, std::string>>(const std::string& plural,
                                                                                 const std::string& name)>;

/// What a Pod gets of this machine.
struct PodPlace {
  std::string address;           ///< its status.podIP
  std::string path;              ///< PATH of its container, as images have one
  std::filesystem::path folder;  ///< of this Pod alone: files of its volumes go there
  std::filesystem::path claims;  ///< the volume of the claim NAME is the folder NAME in it
};

/// The first container of the Pod; volumes are written into `place.folder`. Error(data) for what it refers to and that
/// is not there, as a kubelet waits for it.
Sandbox plan_container(const nlohmann::json& pod, const PodPlace& place, const ReadData& read);

/// `$(NAME)` becomes the variable's value, `$$` a dollar; what is no variable stays.
std::string expand_variables(const std::string& text, const Environment& variables);

}  // namespace lockstep::test
