"""How to read each kind of figure, and the table that has its numbers."""

READING = {
    "rates": "One panel per outcome. A point is the share of a condition's simulations that ended so, the bar its "
    "interval: points whose bars overlap may still differ, see the contrasts.",
    "stacked": "Each bar is all simulations of a condition, split by how they ended. The error bar is the interval of "
    "the first outcome, at the bottom.",
    "map": "Each cell is a condition: compare along a row, then along a column.",
    "curves": "A line is the mean over simulations by round, the bars its intervals. Look at where lines part, and at "
    "how many games are left there.",
    "indicators": "A point is the share of simulations in which the statement holds, the bar its interval.",
    "quantities": "A point is the mean over the simulations of a condition, the bar its interval.",
    "sweep": "A line is a mean share by the threshold that decides who is counted. Where lines are flat the choice of "
    "the threshold does not matter.",
    "endings": "A line says which share of the games had ended so by a round. Where lines stay low, games went "
    "on to their deadline.",
    "scatter": "A point is a simulation. Points on the dashed line kept what they began with; a flatter line says "
    "that something else decided.",
    "effects": "A point is how much a value of an axis changes the rate, all else unchanged, the bar its interval. A "
    "bar that crosses 0 does not tell whether there is a change.",
    "trajectories": "A line is an agent, a panel a single simulation: examples, not evidence.",
    "timeline": "A row is an agent, a column a round, a panel a single simulation: examples, not evidence.",
    "network": "A strip is a single simulation, a circle an agent, its color the state it is in. Look at who is "
    "linked to those that change: examples, not evidence.",
}
TABLE_OF = {
    **{"rates": "conditions", "stacked": "conditions", "map": "conditions", "curves": "rounds"},
    **{"indicators": "rates", "quantities": "quantities", "sweep": "thresholds", "endings": "endings"},
    **{"scatter": "simulations", "effects": "effects", "timeline": "turns", "network": "turns"},
}
