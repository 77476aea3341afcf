"""Who is who: the nodes of a site, their keys, and the experiment that they are for."""
