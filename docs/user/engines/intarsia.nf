// For processes on Slurm: has a task prefer the node that holds most bytes of its input files.
//
//     include { beside } from './intarsia.nf'
//     process clean { clusterOptions { beside(reads) } … }
//
// `params.intarsia_python` is a Python that has the package intarsia. This is advice: where it is not to
// be had, the log says why, and the task runs anywhere.

params.intarsia_python = 'python3'

def beside(files) {
    def paths = (files instanceof Collection ? files : [files]).collect { it.toRealPath().toString() }
    def asked = new ProcessBuilder([params.intarsia_python, '-m', 'intarsia.engines.slurm', *paths])
        .redirectErrorStream(true).start()
    def said = asked.inputStream.text.trim()
    if (asked.waitFor() == 0)
        return said
    log.warn "intarsia.engines.slurm: ${said}"
    return ''
}
