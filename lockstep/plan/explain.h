// The explanation of a plan for users: as text, and as an HTML page. Pure.
#pragma once

#include <lockstep/plan/plan.h>

#include <string>

namespace lockstep::plan {

/// The text: the plan, its cost and the reasons, with the alternatives; lines of up to about 120 characters.
std::string explain(const Plan& plan);

/// The same as one self-contained page: no network, no scripts; for light and dark mode.
std::string plan_html(const Plan& plan, const std::string& title);

}  // namespace lockstep::plan
